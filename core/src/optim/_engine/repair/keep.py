"""Find a small set of nodes to leave alone so that a lossy pass keeps the budget.

The drifts of independent roundings add up in squares, so what a node costs is the square of the drift when it is
converted alone, and what leaving it alone saves is about that. Then:

1. nodes that turn finite numbers into NaN or infinity are left alone, whatever the rest;
2. costs are measured: of groups that are consecutive in the graph, the costliest halved again and again, which needs
   far fewer measurements than one for each node;
3. the costliest are left alone (by cost, and by cost for the work they do: the better of both), as few as the budget
   allows, and what is not needed of them is given back;
4. the set is measured for real; where that says otherwise than expected, expectations are corrected, and on from 3.

Where neighbours hand on what they make in the pass's precision, as convolutions of static 8 bits do, each change of
precision costs something too: then 3 also looks at one stretch of neighbours, with the costliest few beside it.

Where an estimate is at hand (:mod:`optim._engine.repair.replay`: a run of a model that is open already), 2 and 3
ask it instead of applying the pass, and only 4 costs evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from optim._engine.repair.costs import Precisions
from optim._engine.repair.found import MOST_WORK_KEPT, OutOfEstimates, OutOfEvaluations, Repair, prices
from optim._engine.repair.units import SEAM, Unit, find_units, names_of, seams, stretches

_ROOM = (1.0, 0.8, 0.6)
"""Of what a stretch may leave, where an estimate says that squares of drifts do not quite add up."""

_CORRECTIONS = 6
_GIVEN_BACK = 6
_NEAR = 1.05
_GROUPS = 12
_SHARE_TO_PROBE = 0.5
"""Of the evaluations, for costs, where there is no estimate."""


def find_keep(
    nodes: Sequence[str],
    drift_of: Callable[[frozenset[str]], float],
    whole: float,
    limit: float,
    evaluations: int,
    *,
    estimate: Precisions | None = None,
    work: Mapping[str, float] | None = None,
) -> Repair | None:
    """A small set of nodes to keep in float.

    Args:
        nodes: those that the pass would change, in graph order.
        drift_of: measures the drift with a set of nodes left alone; may raise :class:`OutOfEvaluations`.
        whole: the drift with none left alone, beyond the limit; may be infinite.
        limit: what the drift may be.
        evaluations: at most so many drifts are measured.
        estimate: a cheap guess, where there is one.
        work: how much each node computes, in any unit; unknown ones count as the average.

    Returns:
        The set found that holds and costs the least, in work left in float and changes of precision, or None where none
        was found in time. Leaving nearly everything alone is no repair.
    """
    meter = _Meter(drift_of, evaluations)
    meter.known[frozenset()] = whole
    guess = None
    if estimate is not None:
        guess = _Meter(lambda converted: estimate.guess(converted, frozenset()), estimate.most, OutOfEstimates)
    search = _Search(tuple(nodes), meter, guess, estimate, limit, prices(nodes, work or {}))
    with suppress(OutOfEvaluations):
        search.run()
    best = search.best()
    if best is None:
        return None
    keep = tuple(name for name in nodes if name in best)
    share = sum(search.price[name] for name in keep) / max(1e-12, sum(search.price.values()))
    return Repair(keep, meter.known[best], meter.count, guess.count if guess else 0, share)


@dataclass
class _Meter:
    """Counts measurements and remembers them."""

    measure: Callable[[frozenset[str]], float]
    left: int
    spent: type[OutOfEvaluations] = OutOfEvaluations
    count: int = 0
    known: dict[frozenset[str], float] = field(default_factory=dict)

    def __call__(self, names: frozenset[str]) -> float:
        if names not in self.known:
            if self.left <= 0:
                raise self.spent
            self.left -= 1
            self.known[names] = self.measure(names)
            self.count += 1
        return self.known[names]


class _Search:
    """One search; what was measured is in its meter."""

    def __init__(
        self,
        nodes: tuple[str, ...],
        real: _Meter,
        guess: _Meter | None,
        estimate: Precisions | None,
        goal: float,
        price: Mapping[str, float],
    ) -> None:
        self._exhaustive = estimate is not None and estimate.exhaustive
        self._chained = estimate.chained if estimate else ()
        self._all = frozenset(nodes)
        self._real = real
        self._guess = guess
        self._goal = goal
        self.price = price
        self._must: frozenset[str] = frozenset(estimate.overflowing if estimate else ())
        self._known = tuple(estimate.nodes) if estimate else nodes
        self._most_probes = estimate.most if estimate else max(1, int(real.left * _SHARE_TO_PROBE))

    def run(self) -> None:
        """Measure until the set is found, or evaluations run out."""
        start = self._real(self._must)
        if start > self._goal:
            if self._guess is not None and not math.isfinite(start):
                self._forget_the_estimate()
            units: Sequence[Unit] = ()
            if self._guess is not None:
                with suppress(OutOfEstimates):
                    units = self._units()
                    self._approach(units, start)
            if self.best() is None:
                self._measure(units)
        self._give_back()

    def best(self) -> frozenset[str] | None:
        """Returns, of the measured sets that hold and gain something, the cheapest, then that of the least drift."""
        known, most = self._real.known, MOST_WORK_KEPT * sum(self.price.values())
        light = [keep for keep in known if sum(self.price[name] for name in keep) <= most]
        holding = [keep for keep in light if known[keep] <= self._goal]
        return min(holding, key=lambda keep: (round(self._cost(keep), 9), self._real.known[keep]), default=None)

    def _units(self) -> list[Unit]:
        names = [name for name in self._known if name not in self._must]
        groups = len(names) if self._guess is not None and len(names) <= self._most_probes // 3 else _GROUPS
        return find_units(names, self._probe, groups, self._most_probes // 2 if self._guess else self._most_probes)

    def _probe(self, converted: frozenset[str]) -> float:
        """The drift with just these converted: guessed, or measured where there is nothing to guess with."""
        return self._guess(converted) if self._guess is not None else self._real(self._all - converted)

    def _approach(self, units: Sequence[Unit], start: float) -> None:
        """Propose by estimates, measure, correct the estimates by what came out."""
        known = frozenset(self._known)
        assert self._guess is not None
        if self._guess(frozenset()) > self._goal:  # with nothing converted it is too far off
            return
        expected = self._guess(known)
        factor = start / expected if expected > 0 else math.inf
        for _ in range(_CORRECTIONS):
            if not math.isfinite(factor):
                break
            keep = self._must | self._propose(units, self._goal / factor)
            if keep in self._real.known:
                break
            drift, expected = self._real(keep), self._guess(known - keep)
            factor = drift / expected if expected > 0 else math.inf

    def _measure(self, estimated: Sequence[Unit]) -> None:
        """Propose by measurements alone: in the order of what was estimated, then in that of what parts cost for real.

        Args:
            estimated: units with the costs that estimates say; empty where there are none.
        """
        if self._real(self._all) > self._goal:  # the model was too far off before this pass
            return
        self._guess = None
        if estimated:
            self._real(self._must | self._propose(estimated, self._goal))
        if self.best() is None:
            self._forget_the_estimate()
            self._real(self._propose(self._units(), self._goal))

    def _propose(self, units: Sequence[Unit], goal: float) -> frozenset[str]:
        """The units to leave alone, by what the probe says; those of less work where two orders differ."""
        orders = [sorted(units, key=lambda unit: -unit.cost / sum(self.price[name] for name in unit.names))]
        if self._guess is not None:
            orders.append(sorted(units, key=lambda unit: -unit.cost))
        sets = [self._shortest(order, goal) for order in orders]
        if self._guess is not None and self._chained:
            sets += self._stretches(units, goal)
        return min(sets, key=self._cost)

    def _stretches(self, units: Sequence[Unit], goal: float) -> list[frozenset[str]]:
        """The cheapest stretch of neighbours that holds, with the costliest few beside it; none where none does."""
        known = frozenset(self._known) - self._must
        total, expected = sum(unit.cost for unit in units), self._probe(known)
        if not 0 < total < math.inf or expected <= 0:
            return []
        for room in _ROOM:
            allowed = room * total * (goal / expected) ** 2
            cheapest = min(stretches(units, allowed), key=self._cost, default=known)
            if self._probe(known - cheapest) <= goal:
                return [cheapest]
        return []

    def _shortest(self, order: Sequence[Unit], goal: float) -> frozenset[str]:
        """The shortest beginning of an order that holds, without those of it that are not needed."""
        known = frozenset(self._known) - self._must
        low, high = 0, len(order) if self._guess is not None else self._longest(order)
        while low < high:
            middle = (low + high) // 2
            if self._probe(known - names_of(order[:middle])) <= goal:
                high = middle
            else:
                low = middle + 1
        kept = list(order[:low])
        for unit in sorted(kept, key=lambda unit: unit.cost):
            if len(kept) == 1:
                break
            fewer = [other for other in kept if other is not unit]
            if self._probe(known - names_of(fewer)) <= goal:
                kept = fewer
        return names_of(kept)

    def _longest(self, order: Sequence[Unit]) -> int:
        """How many units of an order may be left alone: what leaves nearly everything alone is not worth measuring."""
        left = sum(self.price.values()) * MOST_WORK_KEPT
        left -= sum(self.price[name] for name in self._all - names_of(order))
        for place, unit in enumerate(order):
            left -= sum(self.price[name] for name in unit.names)
            if left < 0:
                return place
        return len(order)

    def _give_back(self) -> None:
        """Release halves of what is left alone, as long as that holds; stops with the evaluations."""
        best = self.best()
        if best is None or not best:
            return
        names = [name for name in self._known if name in best] + sorted(best - set(self._known))
        waiting: list[list[str]] = [[name] for name in names] if self._guess and not self._must else [names]
        waiting.sort(key=lambda group: self._expected(best - frozenset(group)))
        tries = _GIVEN_BACK if self._guess and not self._exhaustive else self._real.left
        while waiting and tries > 0:
            group, held = waiting.pop(0), self.best() or best
            rest = held - frozenset(group)
            if rest == held or self._cost(rest) >= self._cost(held):
                continue
            if not self._exhaustive and self._expected(rest) > self._goal * _NEAR:
                continue
            tries -= 1
            if self._real(rest) > self._goal and len(group) > 1:
                waiting += [group[: len(group) // 2], group[len(group) // 2 :]]

    def _expected(self, keep: frozenset[str]) -> float:
        """What a set should cost, by the estimate and how it did on the best set so far; 0 where there is no way."""
        best = self.best()
        if self._guess is None or best is None or self._must - keep:
            return 0.0
        known = frozenset(self._known)
        guessed, measured = self._guess(known - best), self._real.known[best]
        return self._guess(known - keep) * (measured / guessed if guessed > 0 else 1.0)

    def _forget_the_estimate(self) -> None:
        self._guess, self._must = None, frozenset()
        self._known = tuple(self.price)
        self._most_probes = max(1, int(self._real.left * _SHARE_TO_PROBE))

    def _cost(self, names: frozenset[str]) -> float:
        return sum(self.price[name] for name in names) + SEAM * seams(self._chained, names)
