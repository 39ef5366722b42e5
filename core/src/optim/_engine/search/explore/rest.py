"""The rest of a search: the time that a stage leaves for later ones, and what rows say of passes that had none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.promise import BENEATH, GUESSES, Promises
from optim._engine.search.plan import Planned
from optim._engine.search.rows import step_of
from optim._engine.search.state import Attempt, Candidate, StepStatus
from optim.passes import Role, Stage

OUT_OF_TIME = "search time ran out before it was tried; give more with --search-seconds"

NOT_TIMED = "correct, but search time ran out before it was timed; give more with --search-seconds"

LEFT_FOR_LATER = 0.75
"""Share of the time for candidates that a stage leaves where a later one promises more: with less, half a minute
quantizes nothing."""

_NAMED = 3
"""Passes that a verdict names; the report has a row for each."""

_ANSWERED = (StepStatus.NOT_APPLICABLE, StepStatus.FAILED)
"""Of a pass that was tried, and of which there is no candidate."""

Leg: TypeAlias = tuple[Stage, Sequence[Planned]]
"""A stage with its passes, or one pass of the tune stage."""


def share_of_later(own: Sequence[Planned], later: Sequence[Planned], promises: Promises, *, for_size: bool) -> float:
    """The share of the time for candidates that a stage leaves to those after it, 0..1.

    Where size is the goal what makes a model small is lossy; else it is left to what gains more and is made anew of
    each fusion.
    """
    if for_size:
        lossy_later = any(planned.pass_class.lossy for planned in later)
        return LEFT_FOR_LATER if lossy_later and not any(planned.pass_class.lossy for planned in own) else 0.0
    if any(planned.forced for planned in own):
        return 0.0
    anew = [one for one in later if one.offered.stage in BENEATH and promises.holds(one.ordered.name)]
    best = max(map(promises.of_pass, own), default=0.0)
    return LEFT_FOR_LATER if max(map(promises.of_pass, anew), default=0.0) > best else 0.0


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


def run_out(legs: Sequence[Leg], board: Board, candidate: Candidate) -> None:
    """Have what was not tried say that time ran out, and passes of which nothing was."""
    for attempt in board.attempts:
        if attempt.status is StepStatus.SKIPPED and not attempt.reason and attempt.drift is None:
            attempt.run_out(OUT_OF_TIME)
    tried = {attempt.step.pass_name for attempt in board.attempts}
    for planned in (planned for _, those in legs for planned in those):
        if planned.ordered.name not in tried:
            board.open(step_of(planned.offered), candidate).run_out(OUT_OF_TIME)
