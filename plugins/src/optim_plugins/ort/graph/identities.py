"""Identities that only part what belongs together: exporters write many."""

from __future__ import annotations

import onnx_ir as ir

_STANDARD = ("", "ai.onnx")


def drop_identities(graph: ir.Model) -> None:
    """Remove every Identity that hands on what its own graph makes for nothing else than one output, or makes none."""
    for node in list(graph.graph.all_nodes()):
        if node.op_type != "Identity" or node.domain not in _STANDARD or node.graph is None:
            continue
        source, result = node.inputs[0], node.outputs[0]
        if source is None:
            continue
        if result.is_graph_output():
            producer = source.producer()
            if producer is None or producer.graph is not node.graph or source.is_graph_output():
                continue
            name, result.name = result.name, f"{result.name}_identity"
            source.name = name
        source.type = source.type or result.type
        if source.graph is node.graph:  # else a shape of one branch would be said of what all branches read
            source.shape = source.shape if source.shape is not None else result.shape
        ir.convenience.replace_all_uses_with(result, source, replace_graph_outputs=True)
        node.graph.remove(node, safe=True)
