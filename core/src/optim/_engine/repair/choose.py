"""Chooses a precision for every node, so that a lossy pass keeps the budget: the pass's, one between, or its own.

:func:`choose` is the one way in. Where a pass has an option ``finer``, and what both precisions do to each node is
known, all three are chosen at once. Leaving nodes alone first and refining them afterwards leaves more work in float
than needed: many nodes in the precision between can stand for few in float. Squares of errors add up, so for a price
``l`` of drift each node takes what costs least by itself::

    precision of a node = argmin over precisions of  price(precision) + l * (drift with this node alone in it) ** 2

and the smallest ``l`` whose choice is expected to hold is looked for. The choice is measured; where that says
otherwise than expected, expectations are corrected, as :mod:`optim._engine.repair.keep` does.

Otherwise :func:`optim._engine.repair.keep.find_keep` decides between two precisions, the first and the last. The nodes
that it keeps are then tried in the middle one, where there is one: all at once, then halves of what did not hold, those
of most work first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from optim._engine.repair.costs import Drift, Precisions
from optim._engine.repair.found import OutOfEvaluations, Repair, prices
from optim._engine.repair.keep import find_keep
from optim._engine.repair.units import find_segments

FINER_PRICE = 0.4
"""Of what a node in float costs beyond one in the pass's precision: 0.3 of it measured with activations of 16 bits on
AVX512-VNNI, where 8 bits are fastest. With less, slower machines get what they gain nothing by."""

_CORRECTIONS = 4
_HALVINGS = 14
"""Prices are told apart by a factor of about two thousandths of their range."""

_CLOSE = 0.98
"""Of the goal: what holds and is as near ends the search, since a fiftieth of the drift is worth no evaluation."""

_AFTER_A_MISS = 1.01
"""More than what was missed by: a BERT-base was measured at 1.009, 1.008 and 0.998 of its goal, 8 s each."""

ESTIMATES_BEYOND = _CORRECTIONS * (_HALVINGS + 2)


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
        exhaustive: as of :class:`~optim._engine.repair.costs.Precisions`.
    """

    nodes: Sequence[str]
    refinable: frozenset[str]
    drift_of: Drift
    whole: float
    work: Mapping[str, float]
    chained: tuple[str, ...] = ()
    exhaustive: bool = False


def choose(asked: Question, precisions: Precisions | None, goal: float, evaluations: int) -> Repair | None:
    """The cheapest precision found for each node with which the whole holds: the one way in.

    Args:
        asked: nodes, and how their drift is measured.
        precisions: what is known of each node; None where nothing is.
        goal: what the drift may be.
        evaluations: at most so many drifts are measured, those for refining left out.

    Returns:
        None where none was found in time.
    """
    if precisions is not None and precisions.refinable:
        found = find_mix(precisions, asked.drift_of, asked.whole, goal, evaluations, asked.work)
        if found is not None:
            return found
    estimate = (
        replace(precisions, chained=asked.chained, exhaustive=asked.exhaustive) if precisions is not None else None
    )
    drift_of, work = asked.drift_of, asked.work
    kept = find_keep(
        asked.nodes,
        lambda keep: drift_of(keep, frozenset()),
        asked.whole,
        goal,
        evaluations,
        estimate=estimate,
        work=work,
    )
    if kept is None or not asked.refinable:
        return kept
    return refine(kept, asked.refinable, lambda keep, finer: drift_of(frozenset(keep), frozenset(finer)), goal, work)


@dataclass(frozen=True, slots=True)
class _Choice:
    keep: frozenset[str]
    finer: frozenset[str]


def find_mix(
    precisions: Precisions, drift_of: Drift, whole: float, goal: float, evaluations: int, work: Mapping[str, float]
) -> Repair | None:
    """The cheapest choice found that holds.

    Args:
        precisions: of the nodes that the pass would change.
        drift_of: measures the drift with nodes left alone, and others in the precision between; may raise
            :class:`OutOfEvaluations`.
        whole: the drift with every node in the pass's precision; may be infinite.
        goal: what the drift may be.
        evaluations: at most so many drifts are measured.
        work: how much each node computes, in any unit; unknown ones count as the average.

    Returns:
        None where none was found in time. Nodes that are too many to look at each are decided by segments.
    """
    price = prices((*precisions.nodes, *precisions.overflowing), work)
    if not precisions.are_few(ESTIMATES_BEYOND):
        return _mix_of_segments(precisions, drift_of, whole, goal, evaluations, price)
    mix = _Mix(precisions, goal, price)
    with suppress(OutOfEvaluations):
        mix.run(drift_of, whole, min(evaluations, _CORRECTIONS))
    return mix.found


def _mix_of_segments(
    precisions: Precisions, drift_of: Drift, whole: float, goal: float, evaluations: int, price: Mapping[str, float]
) -> Repair | None:
    """The same for segments of consecutive nodes; None where guesses are too few for those too."""
    found = find_segments(precisions, precisions.most - ESTIMATES_BEYOND)
    if found is None:
        return None
    segments = found

    def measured(keep: frozenset[str], finer: frozenset[str]) -> float:
        return drift_of(segments.nodes(keep), segments.nodes(finer, precisions.refinable))

    mix = _Mix(segments.precisions, goal, segments.prices(price))
    with suppress(OutOfEvaluations):
        mix.run(measured, whole, min(evaluations, _CORRECTIONS))
    if mix.found is None:
        return None
    keep = segments.nodes(mix.found.keep)
    finer = segments.nodes(mix.found.finer, precisions.refinable)
    return replace(
        mix.found,
        keep=tuple(name for name in price if name in keep),
        finer=tuple(name for name in price if name in finer),
        estimates=mix.found.estimates + segments.looked,
    )


@dataclass
class _Mix:
    """One search for a choice."""

    precisions: Precisions
    goal: float
    price: Mapping[str, float]
    found: Repair | None = None
    _guesses: dict[tuple[frozenset[str], frozenset[str]], float] = field(default_factory=dict)
    _evaluations: int = 0
    _best_price: float = math.inf

    def run(self, drift_of: Drift, whole: float, evaluations: int) -> None:
        nodes = frozenset(self.precisions.nodes)
        ground = self._guess(frozenset(), frozenset()) ** 2
        coarse = {name: self._guess(frozenset((name,)), frozenset()) ** 2 - ground for name in nodes}
        between = {
            name: self._guess(frozenset(), frozenset((name,))) ** 2 - ground for name in self.precisions.refinable
        }
        expected = self._guess(nodes, frozenset())
        factor = whole / expected if math.isfinite(whole) and expected > 0 else 1.0
        measured: set[_Choice] = set()
        for _ in range(evaluations):
            choice = self._cheapest(coarse, between, self.goal / factor)
            choice = choice and self._given_back(choice, coarse, self.goal / factor)
            if choice is None or choice in measured or choice.keep >= nodes:
                break
            measured.add(choice)
            drift, expected = drift_of(choice.keep, choice.finer), self._expected(choice)
            self._evaluations += 1
            if drift <= self.goal and self._price(choice) < self._best_price:
                self._best_price, self.found = self._price(choice), self._repair(choice, drift)
            if not (math.isfinite(drift) and expected > 0) or _CLOSE * self.goal <= drift <= self.goal:
                break
            factor = drift / expected * (1.0 if drift <= self.goal else _AFTER_A_MISS)

    def _cheapest(self, coarse: Mapping[str, float], between: Mapping[str, float], goal: float) -> _Choice | None:
        """The choice for the lowest price of drift that is expected to hold."""
        scale = max([1e-30, *coarse.values()])
        low, high = math.log(1e-4 * min(self.price.values()) / scale), math.log(1e12 * max(self.price.values()) / scale)
        best: _Choice | None = None
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            choice = self._for_price(math.exp(middle), coarse, between)
            if self._expected(choice) <= goal:
                best, high = choice, middle
            else:
                low = middle
        return best

    def _given_back(self, choice: _Choice, coarse: Mapping[str, float], goal: float) -> _Choice:
        """The choice with single nodes one precision lower, those that err least first, as far as that should hold.

        One price for all leaves something of the budget where nodes are few.
        """
        movable = (choice.keep | choice.finer) - frozenset(self.precisions.overflowing)
        for name in sorted(movable, key=lambda name: (coarse[name], name)):
            if len(self._guesses) >= self.precisions.most:
                break
            to_finer = name in choice.keep and name in self.precisions.refinable
            lower = _Choice(choice.keep - {name}, choice.finer | {name} if to_finer else choice.finer - {name})
            if self._expected(lower) <= goal:
                choice = lower
        return choice

    def _for_price(self, drift_price: float, coarse: Mapping[str, float], between: Mapping[str, float]) -> _Choice:
        """What each node takes by itself."""
        keep, finer = set(self.precisions.overflowing), set()
        for name in self.precisions.nodes:
            as_it_is, kept = drift_price * coarse[name], self.price[name]
            refined = FINER_PRICE * kept + drift_price * between[name] if name in between else math.inf
            if refined < min(as_it_is, kept):
                finer.add(name)
            elif kept < as_it_is:
                keep.add(name)
        return _Choice(frozenset(keep), frozenset(finer))

    def _expected(self, choice: _Choice) -> float:
        return self._guess(frozenset(self.precisions.nodes) - choice.keep - choice.finer, choice.finer)

    def _guess(self, converted: frozenset[str], finer: frozenset[str]) -> float:
        key = (converted, finer)
        if key not in self._guesses:
            self._guesses[key] = self.precisions.guess(converted, finer)
        return self._guesses[key]

    def _price(self, choice: _Choice) -> float:
        kept, finer = (sum(self.price[name] for name in names) for names in (choice.keep, choice.finer))
        return kept + FINER_PRICE * finer

    def _repair(self, choice: _Choice, drift: float) -> Repair:
        order: Sequence[str] = tuple(self.price)
        whole = max(1e-12, sum(self.price.values()))
        share, between = (sum(self.price[name] for name in names) / whole for names in (choice.keep, choice.finer))
        keep, finer = (tuple(name for name in order if name in names) for names in (choice.keep, choice.finer))
        return Repair(keep, drift, self._evaluations, len(self._guesses), share, finer, between)


_TRIES = 6
"""Each applies the pass and runs the model, as an evaluation of a repair does; four nodes are told apart by as many."""


def refine(
    repair: Repair,
    refinable: Collection[str],
    drift_of: Callable[[Sequence[str], Sequence[str]], float],
    limit: float,
    work: Mapping[str, float],
) -> Repair:
    """The same repair with fewer nodes kept, and the others in ``finer``.

    Args:
        repair: holds as it is.
        refinable: nodes that have a precision between.
        drift_of: measures the drift with nodes kept, and nodes in finer; may raise :class:`OutOfEvaluations`.
        limit: what the drift may be.
        work: how much each node computes, in any unit; unknown ones count as the average.
    """
    mean = sum(work.values()) / len(work) if work else 1.0
    names = sorted((name for name in repair.keep if name in refinable), key=lambda name: -work.get(name, mean))
    waiting, best = [names] if names else [], repair
    for _ in range(_TRIES):
        if not waiting:
            break
        group = waiting.pop(0)
        moved = {*best.finer, *group}
        keep = tuple(name for name in repair.keep if name not in moved)
        finer = tuple(name for name in repair.keep if name in moved)
        try:
            drift = drift_of(keep, finer)
        except OutOfEvaluations:
            break
        best = replace(best, evaluations=best.evaluations + 1)
        if drift <= limit:
            best = replace(best, keep=keep, finer=finer, drift=drift)
        elif len(group) > 1:
            waiting += [group[: len(group) // 2], group[len(group) // 2 :]]
    total = sum(work.get(name, mean) for name in repair.keep)
    left = sum(work.get(name, mean) for name in best.keep)
    moved_work = repair.work * (1 - left / total) if total else 0.0
    return replace(best, work=repair.work - moved_work, between=repair.between + moved_work)
