"""Two graphs that a runtime executes, joined: which nodes of the one do what which nodes of the other do.

Values that both have divide both into parts; what makes such a value in the one graph does what makes it in the other.
A node that several parts need belongs to the first of them. Which value is which is told by
``graphs/matching.py``, on the models as they came: the runtime's optimizers keep the names of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx

from optim.laboratory import NodeTime


@dataclass(frozen=True, slots=True)
class NodeOrigin:
    """A part of both graphs.

    Attributes:
        value: of the first graph that it makes; empty for nodes that nothing in the other graph stands for.
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


def joined(before: Executed, after: Executed, partner: Mapping[str, str]) -> tuple[NodeOrigin, ...]:
    """Parts of both graphs, the dearest first; the sums of their times are those of all nodes.

    Args:
        before: the first graph as it is executed, with the times of its nodes.
        after: the second.
        partner: values of the second graph, each with the first's that it stands for; others are paired by name.
    """
    made = _made(before[0]), _made(after[0])
    pairs = {theirs: ours for theirs, ours in partner.items() if theirs in made[1] and ours in made[0]}
    taken = set(pairs.values())
    pairs.update((name, name) for name in made[1] if name in made[0] and name not in pairs and name not in taken)
    firsts = {ours: theirs for theirs, ours in reversed(pairs.items())}  # of several with one partner, the first
    sides = [_parts(before[0], set(firsts)), _parts(after[0], set(firsts.values()))]
    times = [{node.name: node for node in nodes} for _, nodes in (before, after)]
    known = {*sides[0], *(ours for ours, theirs in firsts.items() if theirs in sides[1])}
    values = [ours for ours in firsts if ours in known]
    found = [_origin(one, (sides[0].get(one, ()), sides[1].get(firsts[one], ())), times) for one in values]
    seen = [{name for side in sides[place].values() for name in side} for place in (0, 1)]
    rest = [tuple(name for name in times[place] if name not in seen[place]) for place in (0, 1)]
    found.append(_origin("", (rest[0], rest[1]), times))
    timed = [one for one in found if one.before_ms or one.after_ms]
    return tuple(sorted(timed, key=lambda one: -max(one.before_ms, one.after_ms)))


def _origin(
    value: str, names: tuple[tuple[str, ...], tuple[str, ...]], times: Sequence[Mapping[str, NodeTime]]
) -> NodeOrigin:
    nodes = [[known[name] for name in side if name in known] for side, known in zip(names, times, strict=True)]
    before, after = ([node.name for node in side] for side in nodes)
    operators = [tuple(dict.fromkeys(node.operator for node in side)) for side in nodes]
    sums = [sum(node.ms for node in side) for side in nodes]
    return NodeOrigin(value, tuple(before), tuple(after), sums[0], sums[1], (operators[0], operators[1]))


def _made(graph: onnx.ModelProto) -> dict[str, None]:
    return dict.fromkeys(name for node in graph.graph.node for name in node.output if name)


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
