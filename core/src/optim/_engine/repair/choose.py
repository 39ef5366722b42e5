"""Chooses a precision for every node, so that a lossy pass keeps the budget: the pass's, one between, or its own.

The drifts of independent roundings add up in squares. A node costs the square of the drift with this node alone in the
pass's precision, so raising its precision saves about that, for the work that it does::

    a step up = (node, precision),    its worth = squares of drift that it saves / work that it adds

Steps up are taken in the order of their worth, as few as the budget allows. A pass with two precisions has one step for
each node; one with a precision between has two, and the first of them is left out where both together are worth more.

1. Nodes that turn finite numbers into NaN or infinity are left alone, whatever the rest.
2. The costs of nodes are known (:mod:`optim._engine.repair.costs`), or groups of nodes that are consecutive in the
   graph are measured, the costliest halved again and again.
3. The shortest beginning of the order that should hold is taken, and single steps that are not needed are taken back.
4. The set is measured; if that says otherwise than expected, expectations are corrected, and on from 3.
5. While evaluations last, what may be more than needed is measured one precision lower.

If costs are known, only 4 and 5 apply the pass. If they are not, or what they propose does not hold, 2 and 3 apply the
pass too, and know two precisions only: 5 finds what the one between can do.

Neighbours may hand on what they make in the pass's precision, as convolutions of static 8 bits do. Each change of
precision between them costs something too, so 3 then also looks at one stretch of neighbours, with the costliest few
beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from optim._engine.repair.costs import Costs
from optim._engine.repair.found import (
    A_LITTLE,
    FINER_PRICE,
    MOST_WORK_KEPT,
    SHARE_TO_LEARN,
    NodePrecisions,
    OutOfEvaluations,
    Prices,
    Repair,
)
from optim._engine.repair.units import GROUPS, Unit, find_units, stretches

BY_COSTS = 6
"""Sets that are measured by what nodes cost, each corrected by the last: if none holds, costs say too little."""

_LOWERED = 3
"""Sets one precision lower that are measured where costs chose: each applies the pass."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a repair.

    Attributes:
        nodes: those that the pass would change, in graph order.
        refinable: those of them that have a precision between.
        drift_of: measures the drift with nodes left alone, and others in the precision between; may raise
            :class:`OutOfEvaluations`.
        whole: the drift with every node in the pass's precision; may be infinite.
        work: how much each node computes, in any unit; unknown ones count as the average.
        chained: nodes that hand on what they make in the pass's precision to the next of them, in graph order.
        exhaustive: whether each node of a higher precision is tried in a lower one too, whatever is guessed.
    """

    nodes: Sequence[str]
    refinable: frozenset[str]
    drift_of: Callable[[frozenset[str], frozenset[str]], float]
    whole: float
    work: Mapping[str, float] = field(default_factory=dict)
    chained: tuple[str, ...] = ()
    exhaustive: bool = False


def choose(asked: Question, costs: Costs | None, goal: float, evaluations: int) -> Repair | None:
    """The cheapest precision found for each node with which the whole holds: the one way in.

    Args:
        asked: nodes, and how their drift is measured.
        costs: what is known of each node; None where nothing is.
        goal: what the drift may be.
        evaluations: at most so many drifts are measured.

    Returns:
        The choice that holds and costs the least, in work of higher precision and changes of precision, or None where
        none was found in time. Leaving nearly everything alone is no repair.
    """
    search = _Search(asked, costs, goal, evaluations)
    with suppress(OutOfEvaluations):
        search.run()
    return search.found()


@dataclass(frozen=True, slots=True)
class _StepUp:
    """Nodes that are decided together, one precision higher, or left alone at once; worth squares of drift per work."""

    unit: Unit
    leaves_alone: bool
    worth: float


class _Search:
    """One search; it remembers what was measured."""

    def __init__(self, asked: Question, costs: Costs | None, goal: float, evaluations: int) -> None:
        self._asked = asked
        self._know(costs)
        self._goal = goal
        self._left = evaluations
        self._measured = {NodePrecisions(): asked.whole}
        self._prices = Prices(asked.nodes, asked.work, asked.chained)

    def run(self) -> None:
        """Measure until the choice is found, or evaluations run out."""
        start = self._drift(NodePrecisions(self._must))
        if start > self._goal:
            units: list[Unit] = []
            if self._costs is not None and math.isfinite(start):
                units = [
                    Unit((n,), one.coarse, one.between) for n, one in self._costs.of.items() if n not in self._must
                ]
                self._approach(self._costs, units, start)
            if self._best() is None:
                self._measure(units)
        self._lower()

    def found(self) -> Repair | None:
        """The best that was measured."""
        best = self._best()
        if best is None:
            return None
        return self._prices.repair(best, self._measured[best], len(self._measured) - 1)

    def _best(self) -> NodePrecisions | None:
        """The cheapest measured choice that holds and gains something; of equal ones that of the least drift."""
        known, cost = self._measured, self._prices.cost
        holding = [one for one in known if known[one] <= self._goal and self._prices.share(one.keep) <= MOST_WORK_KEPT]
        return min(holding, key=lambda one: (round(cost(one), 9), known[one]), default=None)

    def _drift(self, choice: NodePrecisions) -> float:
        """The drift of a choice, measured."""
        if choice not in self._measured:
            if self._left <= 0:
                raise OutOfEvaluations
            self._left -= 1
            self._measured[choice] = self._asked.drift_of(choice.keep, choice.finer)
        return self._measured[choice]

    def _expected(self, choice: NodePrecisions) -> float:
        """The drift of a choice by costs, or measured where they are not known."""
        return self._drift(choice) if self._costs is None else self._costs.drift(choice.keep, choice.finer)

    def _know(self, costs: Costs | None) -> None:
        self._costs = costs
        self._must = costs.overflowing if costs is not None else frozenset()
        self._refinable = costs.refinable if costs is not None else frozenset()

    def _approach(self, costs: Costs, units: Sequence[Unit], start: float) -> None:
        """Propose by costs, measure, and correct by what came out."""
        if costs.ground > self._goal:
            return  # with nothing converted it is too far off
        drift, choice = start, NodePrecisions(self._must)
        for _ in range(BY_COSTS):
            expected = self._expected(choice)
            if not (math.isfinite(drift) and expected > 0) or self._is_close(drift):
                return
            factor = drift / expected * (1 + A_LITTLE if drift > self._goal else 1.0)
            choice = self._proposed(units, self._goal / factor)
            if choice in self._measured:
                return
            drift = self._drift(choice)

    def _measure(self, known: Sequence[Unit]) -> None:
        """Propose by measurements alone: in the order of known costs, then in that of what groups cost for real."""
        nodes = tuple(self._asked.nodes)
        everything = frozenset(nodes)
        if self._drift(NodePrecisions(everything)) > self._goal:
            return  # the model was too far off before this pass
        self._know(None)
        if known:
            self._drift(self._proposed(known, self._goal))
        if self._best() is not None:
            return
        probes = max(1, int(self._left * SHARE_TO_LEARN))
        units = find_units(nodes, lambda alone: self._drift(NodePrecisions(everything - alone)), GROUPS, probes)
        self._drift(self._proposed(units, self._goal))

    def _proposed(self, units: Sequence[Unit], goal: float) -> NodePrecisions:
        """The cheapest choice that should hold: the shortest beginning of the steps up, or a stretch of neighbours."""
        steps = self._steps_up(units)
        low, high = 0, len(steps) if self._costs is not None else self._longest(steps)
        while low < high:
            middle = (low + high) // 2
            if self._expected(self._after(steps[:middle])) <= goal:
                high = middle
            else:
                low = middle + 1
        choice = self._after(steps[:low])
        taken = {step.unit.names: step.unit for step in steps[:low]}
        for unit in sorted(taken.values(), key=lambda unit: unit.cost):
            lower = choice.lowered(unit.names, self._refinable)
            if self._expected(lower) <= goal:
                choice = lower
        return min([choice, *self._stretches(units, goal)], key=self._prices.cost)

    def _steps_up(self, units: Sequence[Unit]) -> list[_StepUp]:
        """All steps up, those worth most first."""
        steps = []
        for unit in units:
            alone = self._prices.of(unit.names)
            if unit.between is not None and math.isfinite(unit.between):
                refined = FINER_PRICE * self._prices.of(self._refinable.intersection(unit.names))
                first = (unit.cost - unit.between) / refined
                if first > unit.cost / alone:
                    steps.append(_StepUp(unit, leaves_alone=False, worth=first))
                    steps.append(_StepUp(unit, leaves_alone=True, worth=unit.between / (alone - refined)))
                    continue
            steps.append(_StepUp(unit, leaves_alone=True, worth=unit.cost / alone))
        return sorted(steps, key=lambda step: -step.worth)

    def _after(self, steps: Iterable[_StepUp]) -> NodePrecisions:
        """The choice that these steps come to."""
        keep: set[str] = set(self._must)
        finer: set[str] = set()
        for step in steps:
            (keep if step.leaves_alone else finer).update(step.unit.names)
        return NodePrecisions(frozenset(keep), frozenset(finer) & self._refinable - keep)

    def _longest(self, steps: Sequence[_StepUp]) -> int:
        """How many steps may be taken: what leaves nearly everything alone is not worth measuring."""
        left = MOST_WORK_KEPT - self._prices.share(self._must)
        for place, step in enumerate(steps):
            left -= self._prices.share(step.unit.names) if step.leaves_alone else 0.0
            if left < 0:
                return place
        return len(steps)

    def _stretches(self, units: Sequence[Unit], goal: float) -> list[NodePrecisions]:
        """Stretches of neighbours that hold by costs, with the costliest few beside them."""
        if self._costs is None or not self._asked.chained:
            return []
        allowed = goal**2 - self._costs.ground**2
        return [NodePrecisions(self._must | stretch) for stretch in stretches(units, allowed)]

    def _lower(self) -> None:
        """Measure groups of nodes one precision lower, halves of what does not hold; stops with the evaluations."""
        best = self._best()
        if best is None:
            return
        thorough = self._costs is None or self._asked.exhaustive
        if not thorough and self._is_close(self._measured[best]):
            return
        refinable, waiting = self._asked.refinable, self._groups_to_lower(best)
        tries = self._left if thorough else _LOWERED
        while waiting and tries > 0:
            group, held = waiting.pop(0), self._best() or best
            lower = held.lowered(group, refinable)
            if self._prices.cost(lower) >= self._prices.cost(held):
                continue
            if not self._asked.exhaustive and self._corrected(lower) > self._goal * (1 + A_LITTLE):
                continue
            tries -= 1
            if self._drift(lower) <= self._goal:
                waiting.append(group)
            elif len(group) > 1:
                waiting[:0] = [group[: len(group) // 2], group[len(group) // 2 :]]

    def _groups_to_lower(self, best: NodePrecisions) -> list[list[str]]:
        """Nodes of a higher precision, in groups: those that costs expect to hold first, and alone."""
        names = [name for name in self._asked.nodes if name in best.keep or name in best.finer]
        unknown = [name for name in names if name in self._asked.refinable - self._refinable]
        unknown.sort(key=lambda name: -self._prices.of([name]))
        if self._costs is None:
            return [unknown, names] if unknown else [names]
        alone = [[name] for name in names if name not in self._must and name not in unknown]
        alone.sort(key=lambda group: self._corrected(best.lowered(group, self._refinable)))
        return [group for group in (unknown, *alone, [name for name in names if name in self._must]) if group]

    def _corrected(self, choice: NodePrecisions) -> float:
        """The drift to expect of a choice, by costs and by their error on the best so far; 0 if nobody knows."""
        best = self._best()
        if self._costs is None or best is None or self._must - choice.keep:
            return 0.0
        if not self._refinable.issuperset(choice.finer | best.finer):
            return 0.0  # of that precision nothing is known
        expected = self._expected(best)
        return self._expected(choice) * (self._measured[best] / expected if expected > 0 else 1.0)

    def _is_close(self, drift: float) -> bool:
        """Whether a drift holds and is so near the goal that less of it is worth no evaluation."""
        return (1 - 2 * A_LITTLE) * self._goal <= drift <= self._goal
