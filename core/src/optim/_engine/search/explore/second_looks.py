"""Second looks: where nothing is found that an end could prove, its time is for first looks that were cut short.

A large model, or a busy machine, leaves some passes no first look, or stops it. The end of a run has seconds for
several models that contend. As long as there is none, all but the proof of one is better spent on finding one.
"""

from __future__ import annotations

from collections.abc import Collection

from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import TOO_LITTLE
from optim._engine.search.explore.rest import Cut
from optim._engine.search.state import Candidate, StepStatus, Trial
from optim._engine.search.time_budget import TimeBudget
from optim._engine.search.workbench import Workbench


class SecondLooks:
    """Tries guesses again in the time of the end.

    Args:
        bench: of the run.
        expander: tries passes, and repairs.
        time: of the search.
    """

    def __init__(self, bench: Workbench, expander: Expander, time: TimeBudget) -> None:
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
            if not {one.attempt.step.pass_name, *one.attempt.on}.issuperset(required):
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
        return self._expander.repairs.repair(one.parent, one.planned, attempt, tried)
