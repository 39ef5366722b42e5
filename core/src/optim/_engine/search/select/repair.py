"""Repair: a lossy step leaves some more nodes in float, so that a candidate keeps the budget.

While exploring, the closest candidate of a pass without one that holds is repaired. At the end, a candidate is that
held on the samples explored and breaks the budget on all of them: what is faster than anything that holds is worth
more than to be dropped. Its last lossy step leaves more nodes in float, and the steps after it are applied again.
With goal accuracy, what keeps within the bounds is brought nearer to the original in the same way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from optim._engine.gate.drift import worst_drift
from optim._engine.repair.found import FINER_PRICE, MOST_WORK_KEPT, PART_FOR_THE_METRIC, REPAIRABLE, Repair, why_none
from optim._engine.search.board import Board
from optim._engine.search.deadline import LEAST_REPAIR_S, Deadline
from optim._engine.search.rows import step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.state import Attempt, Candidate, Step, Trial
from optim._engine.search.workbench import Tried, Workbench
from optim.jobs.process import WorkerFailed

_AIM = 0.97
"""Share of the budget that a repair on all samples aims at: drift varies a little with the session settings."""

_LEAST_SHARE = 0.5
"""Of what the candidate took, that its repair must have: it begins with making another. Two repairs of 2 s each took
what the race of a detector lacked, whose candidate had taken 19."""

_FIRST_SHARE = 0.7
"""Share of what is left for repairs that the next one gets: what it finds is tried on other candidates too."""

MARGIN_TO_SOURCE = 0.9
"""Drifts from the source, and of further samples, do not go down quite as those do that a repair measures."""


@dataclass(frozen=True, slots=True)
class RepairedOptions:
    """Options with which a step holds.

    Attributes:
        options: of the step.
        rough: whether a repair with more time may find better ones.
        lost: share of what the step gains that its nodes in other precisions cost, about, 0..1.
        limit: the drift that they were found for.
    """

    options: dict[str, Any]
    rough: bool = False
    lost: float = 0.0
    limit: float = 0.0


class Repairer:
    """Repairs candidates."""

    def __init__(self, bench: Workbench, board: Board, time: Deadline) -> None:
        self._bench = bench
        self._budget = bench.budget
        self._board = board
        self._time = time
        self._chains = Chains(bench, board, time)

    def aim(self, tried: Tried) -> float:
        """Returns the drift that a repair aims at while exploring.

        Where only the drift from the source is beyond the budget, it is brought down by as much; where the task metric
        is what was missed, by a part of what there is.
        """
        if tried.answer is None:
            return self._budget.limit(lossy=True)
        drift = worst_drift(tried.answer.comparisons).relative_error
        if drift > self._budget.limit(lossy=True):
            return self._budget.repair_limit
        times = self._board.of_model(tried.answer.result.model).times_too_far
        return drift / times * MARGIN_TO_SOURCE if times > 1 else drift * PART_FOR_THE_METRIC

    def aim_after(self, repaired: Tried) -> float | None:
        """Returns the drift that the next repair aims at where the gate refused what one found; None: there is none.

        What a repair measured holds. The gate may refuse it for the drift of further samples, or from the source.
        """
        if repaired.answer is None:
            return None
        drift = worst_drift(repaired.answer.comparisons)
        from_source = self._board.of_model(repaired.answer.result.model).times_too_far
        times = max(from_source, self._budget.held(drift) / self._budget.limit(lossy=True))
        return drift.relative_error / times * MARGIN_TO_SOURCE if 1 < times < math.inf else None

    def options(self, trial: Trial, attempt: Attempt, tried: Tried, limit: float) -> RepairedOptions | None:
        """Returns options with which a candidate drifts by ``limit`` at most; None where none were found.

        The report gets a row for them, or the reason why there are none.
        """
        seconds, most_s = self._time.left_for_repairs, self._time.most_for_repair(attempt.seconds)
        if seconds <= 0 or most_s < _LEAST_SHARE * attempt.seconds:
            attempt.unrepaired = "not repaired: no search time left"
            return None
        with self._time.repairs.spending():
            repair = self._find(trial, tried, attempt, limit, (seconds * _FIRST_SHARE, most_s))
        if repair is None:
            return None
        options = _keeping(attempt.step, repair)
        row = self._board.open(step_of(trial.offered, options), trial.candidate)
        row.notes = (repair.text(trial.offered.over_models.kept),)
        return RepairedOptions(options, repair.rough, repair.work + FINER_PRICE * repair.between)

    def _find(
        self, trial: Trial, tried: Tried, row: Attempt, limit: float, within_s: tuple[float, float], seen: str = ""
    ) -> Repair | None:
        """Returns what a repair finds for a candidate; its row says why that is nothing, or not worth it.

        Args:
            trial: that candidate.
            tried: what came of it.
            row: of the candidate.
            limit: the drift to aim at.
            within_s: seconds to begin further sets in, and at most.
            seen: where the candidate was seen to be beyond the budget.
        """
        kept, began = trial.offered.over_models.kept, self._time.now()
        try:
            repair, measured = self._bench.repair(trial, tried, limit, *within_s)
        except WorkerFailed as failed:
            row.unrepaired = f"not repaired{seen}: {_in_words(failed)}"
            return None
        if repair is not None and repair.work <= MOST_WORK_KEPT:
            return repair
        why = f"{repair.work:.0%} of the work would stay {kept}" if repair is not None else ""
        row.unrepaired = f"not repaired{seen}: {why or why_none(measured, limit, kept, self._time.now() - began)}"
        return None

    def on_all_samples(self, candidate: Candidate) -> Candidate | None:
        """Leaves more nodes of a candidate in float; the result is not measured yet.

        Args:
            candidate: with its drift, and its metric, on all samples.

        Returns:
            None where its steps cannot leave nodes alone, or where nothing was found in time; the report says so.
        """
        limit, held = self._budget.limit(lossy=True), self._budget.held(candidate.drift)
        if held > REPAIRABLE * limit or self._time.final_repairs.left < LEAST_REPAIR_S:
            return None
        aim = candidate.drift.relative_error * (PART_FOR_THE_METRIC if held <= limit else limit * _AIM / held)
        with self._time.final_repairs.spending():
            return self._repaired(candidate, aim, self._time.final_repairs.left, "for all samples")

    def nearer(self, candidate: Candidate, aim: float) -> Candidate | None:
        """Leaves nodes of a candidate in float while exploring, so that it drifts by ``aim`` at most; None: no way."""
        with self._time.repairs.spending():
            return self._repaired(candidate, aim, self._time.left_for_repairs, "for less drift within the bounds")

    def _repaired(self, candidate: Candidate, aim: float, seconds: float, why: str) -> Candidate | None:
        """The chain with more nodes left in float by its last lossy step, and the steps after that applied again.

        Args:
            candidate: the chain.
            aim: the drift that it may have.
            seconds: to begin further sets in.
            why: what rows say that it is done for.
        """
        lossy = (i for i, step in enumerate(candidate.steps) if step.lossy and "keep" in step.options)
        place = max(lossy, default=None)
        before = self._chains.apply(candidate.steps[:place]) if place is not None else None
        if place is None or before is None:
            return None
        step = candidate.steps[place]
        offered = self._bench.registry.find_pass(step.pass_name, self._bench.target)
        trial = Trial(before, offered, step.options)
        tried = self._bench.try_one(trial, self._time.for_reapplying)
        if tried.answer is None:
            return None
        kept, row = offered.over_models.kept, self._board.open(step, before)
        within_s = seconds, self._time.most_for_repair(tried.seconds)
        repair = self._find(trial, tried, row, aim, within_s, f" {why}")
        if repair is None or not (repair.keep or repair.finer):
            return None
        repaired = step_of(offered, _keeping(step, repair))
        count = len(repaired.options["keep"])
        nodes = "1 node" if count == 1 else f"{count} nodes"
        self._board.open(repaired, before).notes = (f"{why} {repair.text(kept)}",)
        row.notes = (*row.notes, f"repaired {why}, with {nodes} left {kept}")
        return self._chains.apply([repaired, *candidate.steps[place + 1 :]], before)

    def is_far(self, tried: Tried) -> bool:
        """Whether it is beyond the budget by so much that its repair is the last thing to try."""
        if tried.answer is None or not tried.answer.comparisons:
            return False
        return REPAIRABLE * self.aim(tried) <= worst_drift(tried.answer.comparisons).relative_error < math.inf

    def is_near(self, tried: Tried) -> bool:
        """Whether it is beyond the budget by little, or by what a few nodes that overflow may explain."""
        if tried.answer is None or not tried.answer.comparisons:
            return False
        wrong = [comparison for comparison in tried.answer.comparisons if comparison.problem]
        if wrong:
            return all(comparison.overflowed for comparison in wrong)
        limit = self.aim(tried)
        return limit < worst_drift(tried.answer.comparisons).relative_error < REPAIRABLE * limit


def _in_words(failed: WorkerFailed) -> str:
    """Why a repair ended."""
    error = failed.error
    return f"{error.what}: {error.cause}" if error else failed.reason


def _keeping(step: Step, repair: Repair) -> dict[str, Any]:
    """The options of a step with what a repair found; a node that it keeps is in no other precision."""
    options = {**step.options, "keep": [*step.options["keep"], *repair.keep]}
    if "finer" in step.options:
        options["finer"] = [*(name for name in step.options["finer"] if name not in repair.keep), *repair.finer]
    return options
