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
pass too, and know two precisions only: 5 finds what the one between can do. A group of nodes has one precision, as a
node has: of a group in the precision between, nodes that have none stay in the pass's.

Neighbours may hand on what they make in the pass's precision, as convolutions of static 8 bits hand on integers: one in
float between two others needs floats made of integers and integers of floats. Each change of precision between
neighbours costs something, so 3 then also looks at one stretch of neighbours, with the costliest few beside it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, pairwise

from optim._engine.repair.costs import Costs

REPAIRABLE = 20.0
"""Drift beyond the budget by more than this factor is not repaired."""

MOST_WORK_KEPT = 0.9
"""A repair that leaves more of the work in float gains nothing."""

FINER_PRICE = 0.4
"""Share of what a node in float costs beyond one in the pass's precision: 0.3 was measured with activations of 16 bits
on AVX512-VNNI, where 8 bits are fastest. With less, slower machines get what they gain nothing by."""

SEAM = 0.6
"""What a change of precision between neighbours costs, in the work of an average node.

Values are converted there, and sums and activations between stay in float too. PP-OCRv6's detector took 0.95 of the
processor time of floats with 40 convolutions here and there in float, 0.73 with 35 nearly all in one stretch, both at a
drift of 0.045 and less.
"""

SHARE_TO_LEARN = 0.5
"""The share of the time, or of the evaluations, that measures what nodes cost; the rest measures what that proposes."""

A_LITTLE = 0.01
"""Share of the budget. A repair aims so much below the budget, since later session settings move the drift a little.
After a miss the repair aims so much lower still: a BERT-base was measured at 1.009, 1.008 and 0.998 of its goal, 8 s
each."""

PART_FOR_THE_METRIC = 0.5
"""Share of the drift that is tried, since nobody knows the drift that a loss takes."""

BY_COSTS = 6
"""Sets that are measured by what nodes cost, each corrected by the last: if none holds, costs say too little."""

GROUPS = 12
"""To begin with; with more, fewer are left to halve the costliest."""

_LOWERED = 3
"""Sets one precision lower that are measured where costs chose: each applies the pass."""

_LEAST_SHARE = 0.02
"""A group that costs less than this share of all is not worth halving."""

_BESIDE_A_STRETCH = 4


class OutOfEvaluations(Exception):  # noqa: N818 - a signal, not an error
    """The evaluation budget is spent."""


@dataclass(frozen=True, slots=True)
class Repair:
    """A repair that was found.

    Attributes:
        keep: names of nodes to leave alone, in graph order; empty where nothing fits.
        drift: with them left alone.
        evaluations: drifts measured by applying the pass.
        estimates: drifts estimated without applying it.
        work: share of the work of all nodes that these do, 0..1; of their number where work is unknown.
        finer: names of nodes in a precision between, in graph order; they are not in ``keep``.
        rough: whether it is what held when the time was over: with more time less work is left alone.
    """

    keep: tuple[str, ...]
    drift: float
    evaluations: int
    estimates: int = 0
    work: float = 0.0
    finer: tuple[str, ...] = ()
    rough: bool = False

    def text(self, kept: str) -> str:
        """What was found and what that took, for the report; ``kept`` is where nodes are left."""
        nodes = "1 node" if len(self.keep) == 1 else f"{len(self.keep)} nodes"
        took = "1 evaluation" if self.evaluations == 1 else f"{self.evaluations} evaluations"
        estimates = f" and {self.estimates} estimates" if self.estimates else ""
        finer = f", {len(self.finer)} in a finer precision" if self.finer else ""
        return f"repaired: {nodes} left {kept}, {self.work:.0%} of the work{finer}; found in {took}{estimates}"


@dataclass(frozen=True, slots=True)
class MeasuredSet:
    """A set of nodes that a repair measured."""

    keep: int
    of: int
    drift: float


def why_none(measured: Sequence[MeasuredSet], limit: float, kept: str, seconds: float) -> str:
    """Why no set of nodes is a repair, by what was measured; ``kept`` is where nodes are left."""
    sets = [one for one in measured if one.keep < one.of]
    whole = min((one.drift for one in measured if one.keep == one.of), default=None)
    if whole is not None and whole > limit:
        return f"even with all nodes left {kept} the drift is {whole:.3g}"
    if measured and all(one.of == 1 for one in measured):
        return f"it changes one node, and a repair would leave that {kept}"
    if not sets:
        return f"no set of nodes to leave {kept} was measured in {seconds:.0f} s"
    which = "the set of nodes" if len(sets) == 1 else f"the nearest of {len(sets)} sets of nodes"
    nearest = min(sets, key=lambda one: (max(one.drift, limit), one.keep))
    told = f"{which} measured in {seconds:.0f} s leaves {nearest.keep} of {nearest.of} nodes {kept}"
    told += ", nearly all of the work," if nearest.drift <= limit else ""
    told += f" and drifts {nearest.drift:.3g}"
    return told if whole is None else f"{told}; with all nodes left {kept} the drift is {whole:.3g}"


@dataclass(frozen=True, slots=True)
class NodePrecisions:
    """A precision for each node: left alone, in the one between, or, as all others, in the pass's."""

    keep: frozenset[str] = frozenset()
    finer: frozenset[str] = frozenset()

    def lowered(self, names: Iterable[str], refinable: frozenset[str]) -> NodePrecisions:
        """The same with these nodes one precision lower."""
        group = frozenset(names)
        down = group & self.keep & refinable
        return NodePrecisions(self.keep - group, self.finer - group | down)


class Prices:
    """The cost of a choice: the work that it leaves in a higher precision, and changes of precision.

    A node costs its share of the work, and something for being one more; 1.1 is the average node.

    Args:
        nodes: that are decided, in graph order.
        work: how much each computes, in any unit; unknown ones count as the average.
        chained: nodes that hand on what they make in the pass's precision to the next of them, in graph order.
    """

    def __init__(self, nodes: Sequence[str], work: Mapping[str, float], chained: Sequence[str] = ()) -> None:
        known = [work[name] for name in nodes if work.get(name)]
        mean = sum(known) / len(known) if known else 1.0
        self._of = {name: work.get(name, mean) / mean + 0.1 for name in nodes}
        self._whole = max(1e-12, sum(self._of.values()))
        self._chained = chained

    def of(self, names: Iterable[str]) -> float:
        """The cost of leaving these nodes alone, without changes of precision."""
        return sum(self._of[name] for name in names)

    def share(self, names: Iterable[str]) -> float:
        """The same of what leaving all alone costs, 0..1."""
        return self.of(names) / self._whole

    def cost(self, choice: NodePrecisions) -> float:
        """The cost of a choice."""
        return self.of(choice.keep) + FINER_PRICE * self.of(choice.finer) + SEAM * seams(self._chained, choice.keep)

    def repair(self, choice: NodePrecisions, drift: float, evaluations: int, *, rough: bool = False) -> Repair:
        """A choice that holds, as it is answered."""
        keep, finer = (tuple(name for name in self._of if name in names) for names in (choice.keep, choice.finer))
        return Repair(keep, drift, evaluations, 0, self.share(keep), finer, rough)


def seams(chained: Sequence[str], kept: Collection[str]) -> int:
    """How often the precision changes along nodes that hand on what they make, in graph order."""
    return sum((a in kept) != (b in kept) for a, b in pairwise(chained))


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
        choices = [choice]
        if self._costs is not None and self._asked.chained:
            allowed = goal**2 - self._costs.ground**2
            choices += (NodePrecisions(self._must | stretch) for stretch in stretches(units, allowed))
        return min(choices, key=self._prices.cost)

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
