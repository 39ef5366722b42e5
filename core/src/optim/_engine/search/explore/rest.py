"""The rest of a search: the stages that are still to come, and whether they promise enough to go on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.promise import BENEATH, GUESSES, Promises
from optim._engine.search.journal import Journal, step_of
from optim._engine.search.plan import Planned
from optim._engine.search.state import Attempt, Candidate, StepStatus
from optim._engine.search.taste import TOO_LITTLE
from optim.passes import Role, Stage

OUT_OF_TIME = "search time ran out before it was tried; give more with --search-seconds"

NOT_TIMED = "correct, but search time ran out before it was timed; give more with --search-seconds"

EARLY = "the search ended {left:.0f} s early: the expected gain of the remaining passes ({names}) is below 2 %"

LEFT_FOR_LATER = 0.75
"""Share of the time for candidates that a stage leaves where a later one promises more: with less, half a minute
quantizes nothing."""

_NAMED = 3
"""Passes that a verdict names; the report has a row for each."""

_ANSWERED = (StepStatus.NOT_APPLICABLE, StepStatus.FAILED)
"""Of a pass that was tried, and of which there is no candidate."""

Leg: TypeAlias = tuple[Stage, Sequence[Planned]]
"""A stage with its passes, or one pass of the tune stage."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A first guess that had no time, or was stopped for it."""

    planned: Planned
    parent: Candidate
    attempt: Attempt

    @property
    def is_waiting(self) -> bool:
        """Whether no stage had the time for it since."""
        row = self.attempt
        return row.drift is None and row.status is StepStatus.SKIPPED and (row.out_of_time or not row.reason)


def promises_too_little(legs: Sequence[Leg], promises: Promises) -> bool:
    """Whether the best passes of all legs together promise less than 2 %, and none was asked for."""
    passes = [planned for _, those in legs for planned in those]
    if any(planned.forced for planned in passes) or not any(map(promises.of_pass, passes)):
        return False  # with nothing to offer they take no time, and their rows say why
    return sum(max(map(promises.of_pass, those), default=0.0) for _, those in legs) < TOO_LITTLE


def share_of_later(own: Sequence[Planned], later: Sequence[Planned], promises: Promises, *, for_size: bool) -> float:
    """The share of the time for candidates that a stage leaves to those after it, 0..1.

    Where size is the goal what makes a model small is lossy; else it is left to what promises more than this stage
    and had no time for its first look, as on a busy machine; or to what gains more and is made anew of each fusion.
    """
    if for_size:
        lossy_later = any(planned.pass_class.lossy for planned in later)
        return LEFT_FOR_LATER if lossy_later and not any(planned.pass_class.lossy for planned in own) else 0.0
    if any(planned.forced for planned in own):
        return 0.0
    waiting = [promises.of_pass(one) for one in later if _has_a_claim(one, promises)]
    best = max(map(promises.of_pass, own), default=0.0)
    return LEFT_FOR_LATER if max(waiting, default=0.0) > best else 0.0


def _has_a_claim(planned: Planned, promises: Promises) -> bool:
    """Whether an earlier stage leaves time to a pass that promises more."""
    is_made_anew = planned.offered.stage in BENEATH and promises.holds(planned.ordered.name)
    return promises.is_open(planned.ordered.name) or is_made_anew


def leave_out(legs: Sequence[Leg], promises: Promises, journal: Journal, candidate: Candidate) -> str:
    """Have the rows of what is left out say why; returns the names of these passes."""
    waiting = [planned for _, those in legs for planned in those if promises.of_pass(planned) > 0]
    for planned in waiting:
        attempt = journal.open(step_of(planned.offered), candidate)
        attempt.settle(
            StepStatus.SKIPPED, f"expected gain {promises.of_pass(planned):.1%}: optim tries no pass below 2 %"
        )
    return ", ".join(planned.ordered.name for planned in waiting)


def untried(attempts: Iterable[Attempt]) -> list[str]:
    """Names of passes that may make a model better, and that no candidate was made by for want of time.

    Those of the stage that promises most come first; settings are left out, since they promise least.
    """
    rows = [one for one in attempts if one.step.role is Role.IMPROVE and one.step.stage is not Stage.TUNE]
    made = {one.step.pass_name for one in rows if one.drift is not None or one.status in _ANSWERED}
    late = {one.step.pass_name: one.step.stage for one in rows if one.out_of_time and one.step.pass_name not in made}
    return sorted(late, key=lambda name: (-GUESSES.get(late[name], 0.0), name))


def why_no_more(names: Sequence[str], time: Deadline) -> str:
    """How a verdict goes on where passes were not tried once; empty where all were."""
    if not names:
        return ""
    some = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    enough_s = 60 * math.ceil((time.announced_s + len(names) * time.try_s) / 60)
    return f"; no time for a candidate of {some} (about --search-seconds {enough_s} would do)"


def run_out(legs: Sequence[Leg], journal: Journal, candidate: Candidate) -> None:
    """Have what was not tried say that time ran out, and passes of which nothing was."""
    for attempt in journal.attempts:
        if attempt.status is StepStatus.SKIPPED and not attempt.reason and attempt.drift is None:
            attempt.run_out(OUT_OF_TIME)
    tried = {attempt.step.pass_name for attempt in journal.attempts}
    for planned in (planned for _, those in legs for planned in those):
        if planned.ordered.name not in tried:
            journal.open(step_of(planned.offered), candidate).run_out(OUT_OF_TIME)
