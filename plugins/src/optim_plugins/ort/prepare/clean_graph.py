"""Cleaning of an onnx-ir graph without touching large weights."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    IdentityEliminationPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
    ShapeInferencePass,
)
from onnxscript.optimizer import fold_constants as fold

from optim_plugins.ort.graph.transposed_weights import add_transposed

_MOST_ELEMENTS = 16 << 10
"""Constants of more elements are not folded: folding a weight reads it, and writes it anew."""

_STEPS = (
    IdentityEliminationPass(),
    CommonSubexpressionEliminationPass(),
    RemoveUnusedNodesPass(),
    RemoveUnusedOpsetsPass(),
)


def clean(graph: ir.Model) -> None:
    """Fold small constants, merge equal nodes, drop what does nothing or is not used."""
    ShapeInferencePass()(graph)
    fold(graph, input_size_limit=_MOST_ELEMENTS, output_size_limit=_MOST_ELEMENTS, should_fold=_unless_large)
    for step in _STEPS:
        step(graph)


def _unless_large(node: ir.Node) -> bool | None:
    """No for a node that reads a weight, else onnxscript's own rules, which fold the Transpose of any."""
    tensors = [value.const_value for value in node.inputs if value is not None]
    return False if any(tensor is not None and tensor.size > _MOST_ELEMENTS for tensor in tensors) else None


def fold_transposes(graph: ir.Model) -> int:
    """Write every initializer that a Transpose reads once more, transposed; how many Transposes went."""
    known: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
    count = 0
    for node in list(graph.graph.all_nodes()):
        source = node.inputs[0] if node.op_type == "Transpose" and node.domain in ("", "ai.onnx") else None
        if source is None or source.const_value is None or not source.is_initializer() or source.is_graph_input():
            continue
        if node.outputs[0].is_graph_output():
            continue
        axes = len(source.const_value.shape)
        order = tuple(node.attributes["perm"].as_ints()) if "perm" in node.attributes else tuple(range(axes))[::-1]
        if (source, order) not in known:
            known[source, order] = add_transposed(graph, source, order)
        ir.convenience.replace_all_uses_with(node.outputs[0], known[source, order])
        assert node.graph is not None
        node.graph.remove(node, safe=True)
        count += 1
    return count
