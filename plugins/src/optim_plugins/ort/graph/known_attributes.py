"""Attributes that a rewrite knows: it leaves a node with any other alone, and says which one.

A rewrite that writes a node anew, or joins several, must keep all that they say. Operators gain attributes with each
version, those of onnxruntime's own domain most of all: what a rewrite has never heard of could change the result. So
each rewrite lists the attributes that it knows, by operator, and looks at every node that it is about to replace::

    _KNOWN = {"Softmax": ("axis",), "Transpose": ("perm",)}

    if not are_known((softmax, turn), _KNOWN):
        return False

The pass that ran the rewrites tells the user with :func:`notes_on_unknown`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import onnx
import onnx_ir as ir

_NOTE = "optim.unknown-attribute"


def are_known(nodes: Iterable[ir.Node], known: Mapping[str, Collection[str]]) -> bool:
    """Whether a rewrite knows every attribute of some nodes; else the first with another keeps the reason.

    Ask last, when nothing else is against the rewrite: the reason is shown to the user.

    Args:
        nodes: that the rewrite replaces.
        known: names of attributes by operator; an operator that is not there has none.
    """
    for node in nodes:
        other = next((name for name in node.attributes if name not in known.get(node.op_type, ())), None)
        if other is not None:
            node.meta[_NOTE] = f"{node.op_type} has attribute '{other}', which the rewrite does not know"
            return False
    return True


def notes_on_unknown(graph: ir.Model) -> tuple[str, ...]:
    """The reasons that :func:`are_known` left in a graph, each once, with the first node that has it."""
    first: dict[str, str] = {}
    for node in graph.graph.all_nodes():
        if _NOTE in node.meta:
            first.setdefault(node.meta[_NOTE], node.name or node.outputs[0].name or node.op_type)
    return tuple(f"{name}: {reason}" for reason, name in first.items())


def unknown_to_onnx(graph: ir.Model) -> str:
    """The first attribute that onnx does not know of its operator, in one sentence; empty if there is none.

    For a rewrite of a whole graph, which takes away more nodes than it looks at one by one.
    """
    version = graph.graph.opset_imports.get("", 1)
    for node in graph.graph.all_nodes():
        if node.domain == "" and onnx.defs.has(node.op_type, max_inclusive_version=version):
            known = onnx.defs.get_schema(node.op_type, version).attributes
            other = next((name for name in node.attributes if name not in known), None)
            if other is not None:
                return f"{node.name}: {node.op_type} has attribute '{other}', which opset {version} does not know"
    return ""
