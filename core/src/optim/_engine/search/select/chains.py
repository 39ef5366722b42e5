"""Chains of known steps: applied to another candidate than the one they were found on, or repeated from a lock."""

from __future__ import annotations

from collections.abc import Sequence

from optim._engine.gate.budget import Objection
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.rows import step_of
from optim._engine.search.settings import Named
from optim._engine.search.state import Candidate, Step, StepStatus, Trial
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError
from optim.jobs.wire import to_wire
from optim.options import parse_options


class Chains:
    """Applies steps that were tried before."""

    def __init__(self, bench: Workbench, board: Board, time: Deadline) -> None:
        self._bench = bench
        self._board = board
        self._time = time

    def apply(self, steps: Sequence[Step], on: Candidate | None = None) -> Candidate | None:
        """Applies steps to ``on``, or to the original; None where one changes nothing or fails there."""
        candidate = on or self._bench.original
        for step in steps:
            longer = self._longer(candidate, step)
            if longer is None:
                return None
            candidate = longer
        return candidate

    def _longer(self, candidate: Candidate, step: Step) -> Candidate | None:
        offered = self._bench.registry.find_pass(step.pass_name, self._bench.target)
        attempt = self._board.open(step, candidate)
        tried = self._bench.try_one(Trial(candidate, offered, step.options), self._time.for_reapplying)
        return self._board.applied(attempt, candidate, tried)


def repeat(bench: Workbench, board: Board, chain: Sequence[Named]) -> Candidate:
    """Applies a known chain to the original, step by step: nothing is searched, each step is verified.

    Args:
        bench: of the run.
        board: gets a row for each step.
        chain: of a lock.

    Raises:
        OptimError[replay-failed]: a step fails, changes nothing, or is not right.
        OptimError[unknown-pass]: a step's plugin is not installed.
    """
    candidate = bench.original
    for named in chain:
        offered = bench.registry.find_pass(named.name, bench.target)
        options = to_wire(parse_options(offered.over_models, named.options or {}))
        attempt = board.open(step_of(offered, options), candidate)
        tried = bench.try_one(Trial(candidate, offered, options), bench.settings.timeout_s)
        longer, reason = board.applied(attempt, candidate, tried), Objection(attempt.reason)
        if longer is not None and tried.answer is not None:
            candidate = longer
            reason = bench.budget.objection(tried.answer.comparisons, candidate.is_lossy)
        if reason:
            attempt.settle(StepStatus.FAILED, reason.text)
            raise OptimError(
                "replay-failed",
                f"{named.name} does not repeat",
                reason.text,
                "run the search again, without the lock",
                offered.plugin.release,
                ExitStatus.NOT_HELD,
            )
    return candidate
