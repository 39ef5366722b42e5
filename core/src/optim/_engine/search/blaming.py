"""What is to blame for steps that were dropped for being wrong: looked for when a search is over, as a part of the end.

A step is wrong that moves the outputs though it says that it does not, or that loses them, or that is so far beyond the
budget that no repair is tried. What honest rounding costs is no mistake: those steps are only beyond the budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from optim._engine.diagnosis import blame_job
from optim._engine.gate.budget import Budget
from optim._engine.gate.repair import REPAIRABLE
from optim._engine.search.journal import Journal
from optim._engine.search.state import Attempt, StepStatus
from optim._engine.search.workbench import Workbench
from optim.jobs.process import WorkerFailed
from optim.model import Model

_MOST_STEPS = 3
"""Steps that are looked into: what is wrong with one is often what is wrong with the next."""

_SECONDS = 25.0
"""For all of them, in a run whose end has as much; models of 100 MB take 5 to 15 each."""

_LEAST_S = 2.0
"""With less, nothing is found in any but the smallest models."""


def blame_dropped(budget: Budget, searches: Sequence[tuple[Workbench, Journal]]) -> None:
    """Look for the nodes that make dropped steps wrong; their rows say what was found.

    Args:
        budget: tells what is wrong from what is only too far.
        searches: on each target of the run; the store still has the models, and journals are concluded.
    """
    found: dict[int, tuple[Workbench, Model, Model]] = {}
    for bench, journal in searches:
        pairs = ((id(attempt), journal.pair(attempt)) for attempt in journal.attempts)
        found.update((key, (bench, *pair)) for key, pair in pairs if pair is not None)
    wrong = _worst(budget, (attempt for _, journal in searches for attempt in journal.attempts if id(attempt) in found))
    if not wrong:
        return
    time = searches[0][0].deadline
    end = time.now() + min(_SECONDS, time.spare_s)
    for attempt in wrong[:_MOST_STEPS]:
        bench, before, after = found[id(attempt)]
        seconds = end - time.now()
        if seconds < _LEAST_S:
            attempt.notes = (*attempt.notes, "no time left to find the nodes to blame; run optim blame")
            continue
        bench.say(f"finding the nodes to blame in {attempt.step.pass_name}")
        try:
            attempt.blame = _blame(bench, before, after, seconds)
        except WorkerFailed as failed:
            attempt.notes = (*attempt.notes, f"no node to blame was found: {failed.reason}")


def _worst(budget: Budget, attempts: Iterable[Attempt]) -> list[Attempt]:
    """The wrong ones: those that claim to be exact first, then by how far they are off; each pass before any again."""

    def amount(attempt: Attempt) -> float:
        return attempt.drift.relative_error if attempt.drift is not None else math.inf

    beyond = REPAIRABLE * budget.limit(lossy=True)
    objected = [attempt for attempt in attempts if attempt.objected and attempt.status is StepStatus.DROPPED]
    wrong = [attempt for attempt in objected if not attempt.beyond_budget or amount(attempt) > beyond]
    wrong.sort(key=lambda attempt: (attempt.step.lossy, -amount(attempt)))
    firsts = {attempt.step.pass_name: attempt for attempt in reversed(wrong)}
    return sorted(wrong, key=lambda attempt: firsts[attempt.step.pass_name] is not attempt)


def _blame(bench: Workbench, before: Model, after: Model, seconds: float) -> blame_job.Answer:
    """As ``optim blame`` finds it, with the model before the step as the reference.

    Raises:
        WorkerFailed: it did not come back in time, or the models have nothing in common.
    """
    request = blame_job.Request(
        reference=before,
        other=after,
        place=bench.place,
        feeds=bench.reference.feeds,
        samples=bench.prepared.compared,
        names={},
        tolerance=0.0,  # the gate has objected: it is looked into however small it is
        store=bench.store.models,
    )
    key = bench.keys.blame(before, after, bench.prepared.compared)
    return bench.runner.call(blame_job.JOB, request, timeout_s=seconds, key=key)
