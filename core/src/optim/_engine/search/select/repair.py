"""A chain that held on the samples explored and breaks the budget on all of them: repaired at the end of a search.

Candidates are looked at on few samples, so one that is just within the budget there may be just beyond it on all. What
is faster than anything that holds is worth more than to be dropped: its last lossy step leaves some more nodes alone,
with all samples in view, and the steps after it are applied again.
"""

from __future__ import annotations

import time

from optim._engine.gate.budget import Budget
from optim._engine.gate.repair import MOST_WORK_KEPT, PART_FOR_THE_METRIC, REPAIRABLE
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.state import Candidate, Step
from optim._engine.search.workbench import Workbench

_MEND_S = 14.0
"""For all repairs at the end together."""

_LEAST_S = 2.0
_AIM = 0.97
"""Of the budget: a chain drifts a little more or less with the settings of a session that it is delivered with."""


class Repairer:
    """Repairs chains as a whole, in a small time of its own."""

    def __init__(self, bench: Workbench, budget: Budget, journal: Journal) -> None:
        self._bench = bench
        self._budget = budget
        self._journal = journal
        self._chains = Chains(bench, journal)
        self._left_s = _MEND_S

    def mend(self, candidate: Candidate) -> Candidate | None:
        """The chain with more nodes left alone, not yet measured.

        Args:
            candidate: with its drift, and its metric, on all samples.

        Returns:
            None where its steps cannot leave nodes alone, or where nothing was found in time; the report says so.
        """
        place = max(
            (i for i, step in enumerate(candidate.steps) if step.lossy and "keep" in step.options), default=None
        )
        limit = self._budget.limit(lossy=True)
        drift, held = candidate.drift.relative_l2, self._budget.held(candidate.drift)
        if place is None or held > REPAIRABLE * limit or self._left_s < _LEAST_S:
            return None
        aim = drift * (PART_FOR_THE_METRIC if held <= limit else limit * _AIM / held)
        started = time.monotonic()
        try:
            return self._mended(candidate, place, aim)
        finally:
            self._left_s -= time.monotonic() - started

    def _mended(self, candidate: Candidate, place: int, aim: float) -> Candidate | None:
        step, before = candidate.steps[place], self._chains.apply(candidate.steps[:place])
        if before is None:
            return None
        offered = self._bench.registry.find_pass(step.pass_name, self._bench.target)
        tried = self._bench.try_one(before, offered, step.options, self._bench.settings.timeout_s)
        if tried.answer is None:
            return None
        repair = self._bench.repair(before, offered, step.options, tried, aim, self._left_s)
        kept = offered.over_models.kept
        row = self._journal.open(step, before)
        if repair is None or not repair.keep or repair.work > MOST_WORK_KEPT:
            row.notes = (*row.notes, f"not repaired for all samples: no small set of nodes to leave {kept} was found")
            return None
        options = {**step.options, "keep": [*step.options["keep"], *repair.keep]}
        mended = step_of(offered, options)
        self._journal.open(mended, before).notes = (f"for all samples {repair.text(kept)}",)
        row.notes = (*row.notes, f"repaired for all samples, with {_count(mended)} left {kept}")
        return self._chains.apply([mended, *candidate.steps[place + 1 :]], before)


def _count(step: Step) -> str:
    count = len(step.options["keep"])
    return "1 node" if count == 1 else f"{count} nodes"
