"""Weights that a node transposes, written as they are read.

Before, as in an export that shares its weights with the checkpoint, which has them the other way round::

    y = MatMul(x, Transpose(W))                                  W constant

After::

    y = MatMul(x, W_t)                                           W_t constant

The same of what a Gemm transposes itself, ``Gemm(x, W, transB=1)``, for :func:`fold_gemms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir


def transposes_a_weight(node: ir.Node) -> bool:
    """Whether a node is a Transpose of a constant, which an input with a default is not."""
    value = node.inputs[0] if node.inputs else None
    if node.op_type != "Transpose" or node.domain not in ("", "ai.onnx") or value is None or value.is_graph_input():
        return False
    return value.is_initializer() and value.const_value is not None


def fold_transposes(graph: ir.Graph) -> None:
    """Take them out of the graph; what they gave keeps its name. Outputs of the graph stay what they are."""
    import numpy as np
    import onnx_ir as ir

    for node in [node for node in graph if transposes_a_weight(node)]:
        weight, given = node.inputs[0], node.outputs[0]
        if weight is None or weight.const_value is None or given.is_graph_output():
            continue
        order = node.attributes.get_ints("perm", None)
        values = weight.const_value.numpy().transpose(order)
        tensor = ir.tensor(np.ascontiguousarray(values))
        folded = ir.Value(name=given.name, type=weight.type, shape=ir.Shape(values.shape), const_value=tensor)
        given.replace_all_uses_with(folded)
        graph.remove(node, safe=True)
        graph.register_initializer(folded)
        if not weight.uses() and not weight.is_graph_output():
            del graph.initializers[str(weight.name)]


def fold_gemms(graph: ir.Graph) -> None:
    """Let every Gemm take its weight as (in, out).

    Of a weight that a Gemm transposes NNCF 3.4 writes blocks along the wrong axis, which no runtime opens.
    """
    import numpy as np
    import onnx_ir as ir

    turned: dict[str, ir.Value] = {}
    for node in graph:
        weight = node.inputs[1] if node.op_type == "Gemm" and node.domain in ("", "ai.onnx") else None
        if weight is None or not weight.is_initializer() or weight.is_graph_input() or weight.const_value is None:
            continue
        if not node.attributes.get_int("transB", 0):
            continue
        name = f"{weight.name}_turned"
        if name not in turned:
            values = np.ascontiguousarray(weight.const_value.numpy().T)
            folded = ir.Value(
                name=name, type=weight.type, shape=ir.Shape(values.shape), const_value=ir.tensor(values, name=name)
            )
            graph.register_initializer(folded)
            turned[name] = folded
        node.replace_input_with(1, turned[name])
        node.attributes.pop("transB")
        if not weight.uses() and not weight.is_graph_output():
            del graph.initializers[str(weight.name)]
