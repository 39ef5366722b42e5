"""Rescue: where nothing is found that an end could prove, its time makes something that may be.

The end of a run has seconds for several models that contend. As long as there is none, all but the proof of one is
better spent on finding one: a repair of what is fast and near the budget, or a first look that was cut short, since a
large model, or a busy machine, leaves some passes none. A repair that was cut short is taken up again where exploring
ended with time left.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from optim._engine.search.deadline import LEAST_REPAIR_S, Deadline
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import Promises
from optim._engine.search.explore.ranking import Ranking
from optim._engine.search.explore.repairs import Near, Repairs, per_evaluation
from optim._engine.search.explore.rest import Cut
from optim._engine.search.state import Candidate, Measured, StepStatus, Trial
from optim._engine.search.taste import CLEARLY_FASTER, TOO_LITTLE
from optim._engine.search.workbench import Workbench


class SecondLooks:
    """Tries guesses again in the time of the end.

    Args:
        bench: of the run.
        expander: tries passes, and repairs.
        time: of the search.
    """

    def __init__(self, bench: Workbench, expander: Expander, time: Deadline) -> None:
        self._bench = bench
        self._expander = expander
        self._time = time

    def run(self, required: Collection[str]) -> tuple[Candidate, float] | None:
        """Tries what was cut short, what promises most first, until something holds.

        Args:
            required: names of passes that every delivered chain has.

        Returns:
            What holds, not timed yet, and the gain to expect of it; None where nothing does.
        """
        promises = self._expander.promises
        waiting = [one for one in self._expander.cut if one.is_waiting and promises.gain(one.attempt.step) > TOO_LITTLE]
        for one in sorted(waiting, key=lambda one: -promises.gain(one.attempt.step)):
            if not _has(one, required):
                continue
            with self._time.lending():
                held = self._look(one)
            if held is not None:
                return held, promises.gain(one.attempt.step)
        return None

    def _look(self, one: Cut) -> Candidate | None:
        attempt, left_s = one.attempt, self._time.most_before_proof
        if left_s < self._expander.promises.needed_s(attempt.step.pass_name):
            return None
        attempt.settle(StepStatus.SKIPPED, "")  # it has its turn again
        tried = self._bench.try_one(Trial(one.parent, one.planned.offered, attempt.step.options), left_s)
        held = self._expander.judge(one.parent, attempt, tried)
        if held is not None or not self._expander.repairs.is_near(attempt, tried):
            return held
        return self._expander.repairs.repair(Near(one.planned, one.parent, attempt, tried))


def _has(one: Cut, required: Collection[str]) -> bool:
    return {one.attempt.step.pass_name, *one.attempt.on}.issuperset(required)


class Rescue:
    """Repairs with the time of the end.

    Args:
        repairs: of the search.
        promises: what is known of passes.
        time: of the search.
        ranking: of what was found; it learns what is hoped for.
        required: passes that every delivered chain has.
        second: looks at what first looks had no time for.
    """

    def __init__(
        self,
        repairs: Repairs,
        promises: Promises,
        time: Deadline,
        ranking: Ranking,
        required: Collection[str],
        second: SecondLooks,
    ) -> None:
        self._repairs = repairs
        self._promises = promises
        self._time = time
        self._ranking = ranking
        self._required = required
        self._second = second

    def run(self, found: Iterable[Measured]) -> list[Measured]:
        """Repairs what is clearly faster than anything that was found, the best per second first, until one holds.

        Returns:
            What holds now, not timed yet; nothing where that is none, or where something is clearly faster already:
            what was never timed says nothing.
        """
        held = self._held(found)
        if held < CLEARLY_FASTER:
            return []
        near = self._repairs.near.values()
        for one in sorted(near, key=lambda one: -self._per_second(one)):
            there = {one.planned.ordered.name, *(step.pass_name for step in one.parent.steps)}
            if self._latency(one) >= CLEARLY_FASTER * held or not there.issuperset(self._required):
                continue
            with self._time.lending():
                if self._time.left_for_repairs < LEAST_REPAIR_S:
                    break
                repaired = self._repairs.repair_again(one)
            if repaired is not None:
                self._ranking.hoped[repaired.digest] = self._promises.latency(one.parent, repaired.steps[-1])
                return [Measured(repaired, None)]
        return []

    def last(self, ranking: list[Measured]) -> list[Measured]:
        """What was found, the best first, and what can still be made where nothing of it is clearly faster.

        Repairs come first, then what first looks had no time for.
        """
        found = self.run(ranking)
        if not found and self._held(ranking) >= CLEARLY_FASTER and (held := self._second.run(self._required)):
            found = [self._noted(*held)]
        return self._ranking.of([*found, *ranking]) if found else ranking

    def refined(self, ranking: list[Measured]) -> list[Measured]:
        """With the best once more, where its repair was cut short and search time is left; the last race has both."""
        best = ranking[0]
        with self._time.repairing_on():
            if self._time.left_for_repairs < LEAST_REPAIR_S:
                return ranking
            found = self._repairs.refine(best.candidate)
        if found is None:
            return ranking
        self._ranking.hoped[found.digest] = self._ranking.figure(best)
        return [Measured(found, None), *ranking]

    def _noted(self, candidate: Candidate, gain: float) -> Measured:
        """What a second look found, with what it promises."""
        self._ranking.hoped[candidate.digest] = math.exp(-gain)
        return Measured(candidate, None)

    def _per_second(self, one: Near) -> float:
        """What a repair of it promises, per second of an evaluation."""
        return per_evaluation(one.attempt, self._latency(one), self._repairs.aim(one.tried))

    def _held(self, found: Iterable[Measured]) -> float:
        """The ratio of the fastest that was found, and is not as slow as the original for all that is known.

        Other programs made settings of a reader of text 0.90 [0.67, 1.10], and nothing else was tried in the 40 s that
        were left.
        """
        return min([1.0, *(self._ranking.figure(one) for one in found if self._is_sure(one))])

    def _is_sure(self, one: Measured) -> bool:
        if one.ratio is None:
            return one.digest not in self._ranking.guessed
        return one.high is None or one.high < 1.0

    def _latency(self, one: Near) -> float:
        """The ratio to expect."""
        return self._promises.latency(one.parent, one.attempt.step)
