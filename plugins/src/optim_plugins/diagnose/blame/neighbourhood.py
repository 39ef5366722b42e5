"""The part of a graph around some of its nodes, as data for a drawing; the whole of a small one."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx_ir as ir

from optim.onnx import qualified_name
from optim_plugins.diagnose.blame.found import NearNode, Neighbourhood
from optim_plugins.diagnose.graphs.cutting import read_by

_MOST = 18
"""Nodes of a drawing: more do not fit a page in a size that can be read."""


def neighbourhood(
    graph: ir.Model, values: Collection[str], blamed: Sequence[Collection[str]], errors: Mapping[str, float]
) -> Neighbourhood:
    """The nodes nearest to some, by steps along edges in either direction.

    Args:
        graph: to be drawn.
        values: those that depend on feeds; what makes others is no part of the drawing.
        blamed: names of nodes; all are marked, and the drawing is about the first of these groups.
        errors: of values; infinite where they are lost.
    """
    main = graph.graph
    nodes = [node for node in main if any(value.name in values for value in node.outputs)]
    centre = [node for node in nodes if node_name(node) in blamed[0]]
    chosen = set(nearest(nodes, centre or nodes[-1:], _MOST))
    marked = {name for group in blamed for name in group}
    made = {value.name for node in chosen for value in node.outputs if value.name}
    inputs = [value.name for value in main.inputs if value.name]
    drawn = [_near(node, made | set(inputs), marked, errors) for node in nodes if node in chosen]
    read = {name for node in drawn for name in node.reads}
    return Neighbourhood(
        tuple(drawn),
        tuple(name for name in inputs if name in read),
        tuple(value.name for value in main.outputs if value.name in made and value.name),
        len(nodes) - len(drawn),
    )


def node_name(node: ir.Node) -> str:
    """What a node is called: its name, else that of its first output."""
    return node.name or next((value.name for value in node.outputs if value.name), "")


def nearest(nodes: Sequence[ir.Node], centre: Iterable[ir.Node], most: int) -> list[ir.Node]:
    """Breadth first from the centre, so many at most."""
    known = set(nodes)
    found = dict.fromkeys(centre)
    ring = list(found)
    while ring and len(found) < most:
        beside = [near for node in ring for near in _beside(node) if near in known]
        ring = [node for node in dict.fromkeys(beside) if node not in found]
        found.update(dict.fromkeys(ring[: most - len(found)]))
    return list(found)[:most]


def _beside(node: ir.Node) -> list[ir.Node]:
    before = [producer for value in read_by(node) if (producer := value.producer()) is not None]
    return [*before, *(use.node for value in node.outputs for use in value.uses())]


def _near(
    node: ir.Node, known: Collection[str | None], marked: Collection[str], errors: Mapping[str, float]
) -> NearNode:
    makes = tuple(value.name for value in node.outputs if value.name)
    error = max((errors[name] for name in makes if name in errors), default=None)
    lost = error is not None and not math.isfinite(error)
    return NearNode(
        name=node_name(node),
        operator=qualified_name(node.domain, node.op_type),
        reads=tuple(dict.fromkeys(value.name for value in read_by(node) if value.name in known and value.name)),
        makes=makes,
        blamed=node_name(node) in marked,
        error=None if lost else error,
        lost=lost,
    )


def path_to_output(graph: ir.Graph, value: str) -> tuple[str, ...]:
    """Names of the nodes on the shortest way from a value to an output of the graph."""
    outputs = {output.name for output in graph.outputs}
    before: dict[str, tuple[str, str]] = {}
    waiting = deque([value])
    readers: dict[str, list[tuple[str, list[str]]]] = {}
    for node in graph:
        made = [one.name for one in node.outputs if one.name]
        for read in read_by(node):
            readers.setdefault(read.name or "", []).append((node_name(node), made))
    while waiting:
        name = waiting.popleft()
        if name in outputs:
            steps = []
            while name in before:
                step, name = before[name]
                steps.append(step)
            return tuple(reversed(steps))
        for reader, made in readers.get(name, []):
            for one in made:
                if one not in before and one != value:
                    before[one] = (reader, name)
                    waiting.append(one)
    return ()
