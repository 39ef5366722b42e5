"""Group normalization as one operator, with the SiLU behind it.

Before, as exporters write it of torch.nn.GroupNorm, G groups, x [N, C, H, W]::

    y = Add(Mul(Reshape(InstanceNormalization(Reshape(x, [0, G, -1]), 1, 0), shape of x), scale), bias)
    z = Mul(y, Sigmoid(y))

After::

    z = Transpose(com.microsoft.GroupNorm(Transpose(x, NHWC), scale, bias, groups=G, activation=1), NCHW)

The kernel reads channels-last; ONNX Runtime's own optimizer drops the Transposes between two of them. It has this
operator for CUDA alone. Rule: onnxscript ``rewriter/ort_fusions/instance_to_group_normalization.py``. Operator:
onnxruntime ``docs/ContribOperators.md``, com.microsoft.GroupNorm.
"""

from __future__ import annotations

import onnx_ir as ir
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.ort_fusions.instance_to_group_normalization import rules

from optim.onnx import only_reader
from optim_plugins.ort.graph.known_attributes import are_known

_KNOWN = {"InstanceNormalization": ("epsilon",), "Reshape": ("allowzero",), "Mul": (), "Add": (), "Sigmoid": ()}


def fuse_group_norm(graph: ir.Model) -> int:
    """Fuse in place; how many."""
    if not are_known([node for node in graph.graph.all_nodes() if node.op_type in _KNOWN], _KNOWN):
        return 0  # the rule matches a node whatever else the node says
    before = len(_group_norms(graph))
    rewrite(graph, rules)
    found = _group_norms(graph)
    if len(found) > before:
        graph.graph.opset_imports.setdefault("com.microsoft", 1)
    for node in found:
        _take_activation(node)
    return len(found) - before


def _group_norms(graph: ir.Model) -> list[ir.Node]:
    return [node for node in graph.graph if node.op_type == "GroupNorm" and node.domain == "com.microsoft"]


def _take_activation(node: ir.Node) -> None:
    """Let a GroupNorm compute the SiLU that alone reads it: y * Sigmoid(y)."""
    transpose = only_reader(node.outputs[0])
    if transpose is None or transpose.op_type != "Transpose" or node.attributes.get_int("activation"):
        return
    result = transpose.outputs[0]
    readers = [use.node for use in result.uses()]
    sigmoid = next((reader for reader in readers if reader.op_type == "Sigmoid"), None)
    product = only_reader(sigmoid.outputs[0]) if sigmoid is not None else None
    if sigmoid is None or product is None or product.op_type != "Mul" or len(readers) != 2 or product not in readers:
        return
    if result.is_graph_output() or {product.inputs[0], product.inputs[1]} != {result, sigmoid.outputs[0]}:
        return
    node.attributes["activation"] = ir.AttrInt64("activation", 1)
    output = product.outputs[0]
    if output.is_graph_output():
        output.name, result.name = f"{output.name}_before", output.name
    ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
    assert product.graph is not None
    product.graph.remove([product, sigmoid], safe=True)
