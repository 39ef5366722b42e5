"""Second looks: where nothing is found that an end could prove, its time is for first looks that were cut short.

A large model, or a busy machine, leaves some passes no first look, or stops it. The end of a run has seconds for
several models that contend. As long as there is none, all but the proof of one is better spent on finding one.

A repair may have that time before; where it is too short for the repair, what promises more per second comes first.
"""

from __future__ import annotations

from collections.abc import Collection

from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import TOO_LITTLE
from optim._engine.search.explore.repairs import Near
from optim._engine.search.explore.rest import Cut
from optim._engine.search.state import Candidate, StepStatus, Trial
from optim._engine.search.workbench import Tried, Workbench


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

    def instead(self, per_second: float, required: Collection[str]) -> tuple[Candidate, float] | None:
        """Tries what promises more per second than a repair for which the time of the end is too short.

        Args:
            per_second: what the repair promises.
            required: names of passes that every delivered chain has.

        Returns:
            As :meth:`run`: of what holds the one that promises most.
        """
        held = []
        for one, tried in self.before(per_second, required):
            new = self._expander.judge(one.parent, one.attempt, tried)
            held += [(new, self._expander.promises.gain(one.attempt.step))] if new is not None else []
        return max(held, key=lambda pair: pair[1], default=None)

    def before(
        self, per_second: float, required: Collection[str] = (), *, lent: bool = True
    ) -> list[tuple[Cut, Tried]]:
        """Tries graphs that were cut short and promise more per second than a repair would, the best first.

        Args:
            per_second: what the repair promises.
            required: names of passes that every delivered chain has.
            lent: whether they have the time of the end too, as the repair would.

        Returns:
            Each that ran, and what came of it.
        """
        promises = self._expander.promises

        def needed_s(one: Cut) -> float:
            return promises.needed_s(one.planned.ordered.name)

        def worth(one: Cut) -> float:
            return promises.gain(one.attempt.step) / needed_s(one)

        graphs = (one for one in self._expander.cut if one.is_waiting and not one.planned.pass_class.session_only)
        waiting = [one for one in graphs if _has(one, required)]
        chosen = sorted((one for one in waiting if worth(one) > per_second), key=worth, reverse=True)
        trials = [Trial(one.parent, one.planned.offered, one.attempt.step.options) for one in chosen]

        def seconds(place: int) -> float:
            left_s = self._time.most_before_proof if lent else self._time.for_candidate()
            return left_s if left_s >= needed_s(chosen[place]) else 0.0

        self._bench.teller.more(len(trials))
        outcomes = self._bench.try_all(trials, seconds)
        tried = [(one, outcome) for one, outcome in zip(chosen, outcomes, strict=True) if outcome is not None]
        for one, _ in tried:
            one.attempt.settle(StepStatus.SKIPPED, "")  # it has its turn again
        return tried

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
