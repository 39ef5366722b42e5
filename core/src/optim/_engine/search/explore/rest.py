"""The rest of a search: the stages that are still to come, and whether they promise enough to go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from optim._engine.search.explore.promise import TOO_LITTLE, Promises
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.plan import Planned
from optim._engine.search.state import Candidate, StepStatus
from optim.passes import Stage

OUT_OF_TIME = "search time ran out before it was tried; give more with --search-seconds"

EARLY = "exploring ended {left:.0f} s early: the rest ({names}) promised less than 2 %"

Leg: TypeAlias = tuple[Stage, Sequence[Planned]]
"""A stage with its passes, or one pass of the tune stage."""


def promises_too_little(legs: Sequence[Leg], promises: Promises) -> bool:
    """Whether the best passes of all legs together promise less than 2 %, and none was asked for."""
    passes = [planned for _, those in legs for planned in those]
    if any(planned.forced for planned in passes) or not any(map(promises.of_pass, passes)):
        return False  # with nothing to offer they take no time, and their rows say why
    return sum(max(map(promises.of_pass, those), default=0.0) for _, those in legs) < TOO_LITTLE


def leave_out(legs: Sequence[Leg], promises: Promises, journal: Journal, candidate: Candidate) -> str:
    """Have the rows of what is left out say why; returns the names of these passes."""
    waiting = [planned for _, those in legs for planned in those if promises.of_pass(planned) > 0]
    for planned in waiting:
        attempt = journal.open(step_of(planned.offered), candidate)
        attempt.settle(StepStatus.SKIPPED, f"it promised {promises.of_pass(planned):.1%}: less than 2 % is not tried")
    return ", ".join(planned.ordered.name for planned in waiting)


def run_out(legs: Sequence[Leg], journal: Journal, candidate: Candidate) -> None:
    """Have what was not tried say that time ran out, and passes of which nothing was."""
    for attempt in journal.attempts:
        if attempt.status is StepStatus.SKIPPED and not attempt.reason and attempt.drift is None:
            attempt.settle(StepStatus.SKIPPED, OUT_OF_TIME)
    tried = {attempt.step.pass_name for attempt in journal.attempts}
    for planned in (planned for _, those in legs for planned in those):
        if planned.ordered.name not in tried:
            journal.open(step_of(planned.offered), candidate).settle(StepStatus.SKIPPED, OUT_OF_TIME)
