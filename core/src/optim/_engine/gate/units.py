"""Which parts of a graph cost how much drift: groups of consecutive nodes, the costliest halved as far as that pays."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count, pairwise

_LEAST_SHARE = 0.02
"""A group that costs less than this share of all is not worth halving."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Consecutive nodes that are left alone together.

    Attributes:
        names: of the nodes, in graph order.
        cost: square of the drift with just these converted, less what is there with none; may be infinite.
    """

    names: tuple[str, ...]
    cost: float


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
