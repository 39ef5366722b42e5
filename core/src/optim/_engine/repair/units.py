"""Which parts of a graph cost how much drift: groups of consecutive nodes, the costliest halved as far as that pays.

Convolutions of static 8 bits hand on integers to the next of them. One in float between two others needs floats made of
integers and integers of floats, so whole stretches of neighbours are left alone there.

A group has one precision, as a node has elsewhere: of one in the precision between, nodes that have none stay in the
pass's.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

GROUPS = 12
"""To begin with; with more, fewer are left to halve the costliest."""

_LEAST_SHARE = 0.02
"""A group that costs less than this share of all is not worth halving."""

_BESIDE_A_STRETCH = 4


@dataclass(frozen=True, slots=True)
class Unit:
    """Consecutive nodes that are decided together.

    Attributes:
        names: of the nodes, in graph order.
        cost: square of the drift with just these converted, less what is there with none; may be infinite.
        between: the same in the precision between; None where there is none, or nobody knows.
    """

    names: tuple[str, ...]
    cost: float
    between: float | None = None


def find_units(
    nodes: Sequence[str], drift_of: Callable[[frozenset[str]], float], groups: int, probes: int
) -> list[Unit]:
    """Measure groups and halve the costliest.

    Args:
        nodes: in graph order.
        drift_of: with just these nodes converted.
        groups: to begin with.
        probes: at most so many drifts are asked for.

    Returns:
        The units in graph order; together they are ``nodes``.
    """
    if not nodes:
        return []
    ground = drift_of(frozenset()) ** 2
    probes -= 1

    def unit(names: Sequence[str]) -> Unit:
        return Unit(tuple(names), max(0.0, drift_of(frozenset(names)) ** 2 - ground))

    parts = _split(nodes, min(groups, max(1, probes), len(nodes)))
    number = count()
    heap = [(-found.cost, next(number), found) for found in map(unit, parts)]
    probes -= len(parts)
    heapq.heapify(heap)
    done: list[Unit] = []
    while heap and probes >= 2:
        cost, _, largest = heapq.heappop(heap)
        total = sum(found.cost for _, _, found in heap if math.isfinite(found.cost)) + sum(u.cost for u in done)
        if len(largest.names) == 1 or -cost <= _LEAST_SHARE * (total - cost if math.isfinite(cost) else total):
            done.append(largest)
            continue
        for half in _split(largest.names, 2):
            found = unit(half)
            heapq.heappush(heap, (-found.cost, next(number), found))
        probes -= 2
    order = {name: place for place, name in enumerate(nodes)}
    return sorted([*done, *(found for _, _, found in heap)], key=lambda found: order[found.names[0]])


def _split(nodes: Sequence[str], parts: int) -> list[Sequence[str]]:
    edges = [round(i * len(nodes) / parts) for i in range(parts + 1)]
    return [nodes[a:b] for a, b in pairwise(edges) if b > a]


def names_of(units: Sequence[Unit]) -> frozenset[str]:
    """All nodes of these units."""
    return frozenset(name for unit in units for name in unit.names)


def stretches(units: Sequence[Unit], allowed: float) -> Iterator[frozenset[str]]:
    """Neighbours to leave alone, with the costliest few beside them, so that no more cost than allowed remains."""
    costliest = sorted(units, key=lambda unit: -unit.cost)
    for beside in range(_BESIDE_A_STRETCH + 1):
        alone = names_of(costliest[:beside])
        yield from (alone | stretch for stretch in _shortest_stretches(units, alone, allowed))


def _shortest_stretches(units: Sequence[Unit], alone: frozenset[str], allowed: float) -> Iterator[frozenset[str]]:
    """From each unit on, the neighbours to leave alone beside ``alone`` so that no more cost than allowed remains."""
    costs = [0.0 if alone.issuperset(unit.names) else unit.cost for unit in units]
    needed, taken, end = sum(costs) - allowed, 0.0, 0
    for begin in range(len(units)):
        while taken < needed and end < len(units):
            taken, end = taken + costs[end], end + 1
        if taken < needed:
            return
        yield names_of(units[begin:end])
        taken -= costs[begin]
        end = max(end, begin + 1)
