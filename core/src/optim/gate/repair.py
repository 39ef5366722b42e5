"""Find a small set of nodes to leave alone so that a lossy pass keeps the budget.

The drifts of independent roundings add up in squares, so what a group of nodes costs is ``whole^2 - without^2``, where
``without`` is the drift with that group left alone. Groups are consecutive in the graph, since ranking segments and
halving them needs far fewer evaluations than ranking nodes one by one. Then:

1. measure the cost of every group;
2. leave alone the costliest until the sum of the rest should fit, and more while it does not;
3. give back halves of what is left alone, cheapest first, as long as the budget holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_GROUPS = 12
_MARGIN = 0.97
"""Aim a little below the limit: the rest of the samples was not looked at."""


@dataclass(frozen=True, slots=True)
class Repair:
    """What was found.

    Attributes:
        keep: names of nodes to leave alone, in graph order; empty where nothing fits.
        drift: with them left alone.
        evaluations: drifts measured.
    """

    keep: tuple[str, ...]
    drift: float
    evaluations: int


class OutOfEvaluations(Exception):  # noqa: N818 - a signal, not an error
    """The evaluation budget is spent."""


def find_keep(
    nodes: Sequence[str], drift_of: Callable[[frozenset[str]], float], whole: float, limit: float, evaluations: int
) -> Repair | None:
    """A small set of nodes to keep in float.

    Args:
        nodes: those that the pass would change, in graph order.
        drift_of: measures the drift with a set of nodes left alone.
        whole: the drift with none left alone, beyond the limit.
        limit: what the drift may be.
        evaluations: at most so many drifts are measured.

    Returns:
        The smallest set found that holds, or None where none was found in time.
    """
    meter = _Meter(drift_of, evaluations)
    goal = limit * _MARGIN
    chosen: list[Sequence[str]] = []
    try:
        groups = _split(nodes, min(_GROUPS, len(nodes)))
        costs = {i: max(0.0, whole**2 - meter.drift(group) ** 2) for i, group in enumerate(groups)}
        order = sorted(costs, key=lambda i: -costs[i] / len(groups[i]))
        expected = whole**2
        for i in order:
            chosen.append(groups[i])
            expected -= costs[i]
            if expected <= goal**2 and meter.drift(_joined(chosen)) <= goal:
                break
        _give_back(chosen, meter, goal)
    except OutOfEvaluations:
        pass
    best = meter.smallest_within(goal)
    if best is None:
        return None
    return Repair(tuple(name for name in nodes if name in best), meter.known[best], meter.count)


def _give_back(chosen: list[Sequence[str]], meter: _Meter, goal: float) -> None:
    """Release what is not needed, halving each group that is; stops with the evaluations."""
    waiting = list(reversed(chosen))
    held = set(_joined(chosen))
    if meter.drift(held) > goal:
        return
    while waiting:
        group = waiting.pop(0)
        if meter.drift(held - set(group)) <= goal:
            held -= set(group)
        elif len(group) > 1:
            middle = len(group) // 2
            waiting += [group[:middle], group[middle:]]


class _Meter:
    """Counts evaluations and remembers them."""

    def __init__(self, drift_of: Callable[[frozenset[str]], float], evaluations: int) -> None:
        self._drift_of = drift_of
        self._left = evaluations
        self.known: dict[frozenset[str], float] = {}

    @property
    def count(self) -> int:
        return len(self.known)

    def drift(self, keep: Sequence[str] | set[str]) -> float:
        """The drift with ``keep`` left alone."""
        key = frozenset(keep)
        if key not in self.known:
            if self._left <= 0:
                raise OutOfEvaluations
            self._left -= 1
            self.known[key] = self._drift_of(key)
        return self.known[key]

    def smallest_within(self, goal: float) -> frozenset[str] | None:
        """The smallest set measured that holds; among equals the one with the least drift."""
        holding = [keep for keep, drift in self.known.items() if drift <= goal]
        return min(holding, key=lambda keep: (len(keep), self.known[keep]), default=None)


def _split(nodes: Sequence[str], parts: int) -> list[Sequence[str]]:
    edges = [round(i * len(nodes) / parts) for i in range(parts + 1)]
    return [nodes[a:b] for a, b in pairwise(edges) if b > a]


def _joined(groups: Sequence[Sequence[str]]) -> list[str]:
    return [name for group in groups for name in group]
