"""Cleaning of an onnx-ir graph without touching large weights."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    NameFixPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
)

from optim_plugins.ort.graph.identities import drop_identities
from optim_plugins.ort.graph.inferred_shapes import infer_shapes
from optim_plugins.ort.graph.transposed_weights import add_transposed
from optim_plugins.ort.prepare.constant_branches import make_own_outputs
from optim_plugins.ort.prepare.fold_constants import fold_constants, is_random
from optim_plugins.ort.prepare.joined_moves import join_moves
from optim_plugins.ort.prepare.one_hot_lookups import look_up_one_hots
from optim_plugins.ort.prepare.recurrent.roll_lstms import roll_lstms
from optim_plugins.ort.prepare.refused_branches import settle_refused_branches
from optim_plugins.ort.prepare.shorten_masks import shorten_masks


def clean(graph: ir.Model) -> dict[str, int]:
    """Fold small constants, merge equal nodes, drop what does nothing or is not used.

    Returns:
        What was rewritten though it may be more nodes, and how often.
    """
    infer_shapes(graph)
    fold_constants(graph)
    while settle_refused_branches(graph):
        fold_constants(graph)
    drop_identities(graph)
    shorten_masks(graph)
    join_moves(graph)
    looked_up = look_up_one_hots(graph)
    rolled = roll_lstms(graph)
    if looked_up or rolled:
        fold_constants(graph)
    if not any(map(is_random, graph.graph.all_nodes())):  # two drawings are not one
        CommonSubexpressionEliminationPass()(graph)
    for part in graph.graphs():
        if part is not graph.graph:
            make_own_outputs(part)
    RemoveUnusedNodesPass()(graph)
    RemoveUnusedOpsetsPass()(graph)
    NameFixPass()(graph)
    counts = {"one-hot products": looked_up, "steps of LSTMs": rolled}
    return {name: count for name, count in counts.items() if count}


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
