"""Two graphs that a runtime executes, joined: which nodes of the one do what which nodes of the other do.

Values that both have under one name divide both into parts; what makes such a value in the one graph does what makes it
in the other. A node that several parts need belongs to the first of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from optim._engine.diagnosis.timing.trace import NodeTime


@dataclass(frozen=True, slots=True)
class Origin:
    """A part of both graphs.

    Attributes:
        value: that it makes; empty for nodes that nothing in the other graph stands for.
        before: names of nodes of the first graph.
        after: of the second.
        before_ms: their time in a run.
        after_ms: see there.
        operators: of both.
    """

    value: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    before_ms: float
    after_ms: float
    operators: tuple[tuple[str, ...], tuple[str, ...]]


Executed = tuple[onnx.ModelProto, Sequence[NodeTime]]


def joined(before: Executed, after: Executed) -> tuple[Origin, ...]:
    """Parts of both graphs, the dearest before first; the sums of their times are those of all nodes."""
    common = _made(before[0]) & _made(after[0])
    sides = [_parts(graph, common) for graph, _ in (before, after)]
    times = [{node.name: node for node in nodes} for _, nodes in (before, after)]
    values = list(dict.fromkeys((*sides[0], *sides[1])))
    found = [_origin(value, (sides[0].get(value, ()), sides[1].get(value, ())), times) for value in values]
    seen = [{name for side in sides[place].values() for name in side} for place in (0, 1)]
    rest = [tuple(name for name in times[place] if name not in seen[place]) for place in (0, 1)]
    found.append(_origin("", (rest[0], rest[1]), times))
    timed = [one for one in found if one.before_ms or one.after_ms]
    return tuple(sorted(timed, key=lambda one: -max(one.before_ms, one.after_ms)))


def _origin(
    value: str, names: tuple[tuple[str, ...], tuple[str, ...]], times: Sequence[Mapping[str, NodeTime]]
) -> Origin:
    nodes = [[known[name] for name in side if name in known] for side, known in zip(names, times, strict=True)]
    before, after = ([node.name for node in side] for side in nodes)
    operators = [tuple(dict.fromkeys(node.operator for node in side)) for side in nodes]
    sums = [sum(node.ms for node in side) for side in nodes]
    return Origin(value, tuple(before), tuple(after), sums[0], sums[1], (operators[0], operators[1]))


def _made(graph: onnx.ModelProto) -> set[str]:
    return {name for node in graph.graph.node for name in node.output if name}


def _parts(graph: onnx.ModelProto, common: set[str]) -> dict[str, tuple[str, ...]]:
    """Names of the nodes that make each common value of other common ones, in graph order."""
    maker = {name: place for place, node in enumerate(graph.graph.node) for name in node.output if name}
    nodes, taken = graph.graph.node, set[int]()
    found = {}
    for node in nodes:
        for value in node.output:
            if value not in common:
                continue
            part, waiting = [], [maker[value]]
            while waiting:
                place = waiting.pop()
                if place in taken:
                    continue
                taken.add(place)
                part.append(place)
                inside = [name for name in nodes[place].input if name in maker and name not in common]
                waiting += [maker[name] for name in inside]
            found[value] = tuple(nodes[place].name for place in sorted(part))
    return {value: part for value, part in found.items() if part}
