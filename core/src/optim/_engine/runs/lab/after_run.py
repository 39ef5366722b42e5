"""Plugins look at a run whose verdict is known: what they find is in its rows and in its report."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from optim._engine.plugins.guard import UnrulyError, outliving
from optim._engine.plugins.offers import Offer
from optim._engine.plugins.versions import plugin_version_key
from optim._engine.repair.choose import REPAIRABLE
from optim._engine.reports.outcome import Verdict
from optim._engine.runs.lab.lab import Lab
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.state import Attempt, Candidate, StepStatus
from optim._engine.search.workbench import Workbench
from optim._engine.stdout import stdout_on_stderr
from optim.after_run import DroppedStep, Findings, FinishedRun
from optim.errors import describe_exception
from optim.laboratory import LabModel

Searches = Sequence[tuple[Workbench, Board]]


def look_after(bench: Workbench, won: Workbench, verdict: Verdict, searches: Searches) -> Findings:
    """Have every plugin look that wants to; what is to blame for dropped steps stands in their rows afterwards.

    Returns:
        What they found beside that.
    """
    pairs = [(one, board, attempt) for one, board in searches for attempt in board.attempts]
    found = Findings()
    for offer in bench.registry.looks_after_run():
        code = plugin_version_key(offer.plugin)
        run = FinishedRun(
            lab=Lab(bench, bench.original, bench.settings.source.name, code=code),
            models=tuple(_models(bench, won, verdict, code)),
            dropped=tuple(_dropped(pairs, bench, code)),
            left_s=partial(_left_s, bench.deadline),
        )
        answer = _answer(offer, run, bench)
        for blame in answer.steps:
            attempt = pairs[blame.step][2]
            attempt.notes = (*attempt.notes, *blame.notes)
            attempt.blame = attempt.blame or (blame if blame.details is not None else None)
        sections = (*found.sections, *answer.sections)
        found = Findings((), found.operator_ms or answer.operator_ms, sections)
    return found


def _answer(offer: Offer, run: FinishedRun, bench: Workbench) -> Findings:
    """What a plugin found; nothing, and a note, where it failed: the run has proven what it delivers."""
    module, _, name = offer.value.partition(":")
    try:
        with stdout_on_stderr(), outliving("its look at the run"):
            look: Callable[[FinishedRun], Findings] = getattr(importlib.import_module(module), name)
            found = look(run)
    except (Exception, UnrulyError) as error:
        bench.deadline.note(f"plugin {offer.plugin.name} could not look at the run: {describe_exception(error)}")
        return Findings()
    if not isinstance(found, Findings):
        bench.deadline.note(f"plugin {offer.plugin.name} could not look at the run: {name} returned no Findings")
        return Findings()
    return found


def _models(bench: Workbench, won: Workbench, verdict: Verdict, code: str) -> Iterator[LabModel]:
    """The original as it is opened, and the result where that is another model; a recast is fed something else."""
    if verdict.original is None:
        return
    entered = Candidate(bench.entry or bench.original.model, bench.original.size_bytes)
    yield Lab(bench, entered, "the original", code=code).original
    result = verdict.delivered
    if result is not None and not result.is_original and result.recast is None:
        yield Lab(won, result, "the result", code=code).original


def _dropped(pairs: Sequence[tuple[Workbench, Board, Attempt]], base: Workbench, code: str) -> Iterator[DroppedStep]:
    """Steps that the gate objected to, of which both models are there and are fed alike."""
    beyond = REPAIRABLE * base.budget.limit(lossy=True)
    labs = {id(bench): Lab(bench, bench.original, bench.settings.source.name, code=code) for bench, _, _ in pairs}
    for number, (bench, board, attempt) in enumerate(pairs):
        models = board.pair(attempt)
        if models is None or not attempt.objection or attempt.status is not StepStatus.DROPPED:
            continue
        drift = attempt.drift.relative_error if attempt.drift is not None else math.inf
        yield DroppedStep(
            number=number,
            pass_name=attempt.step.pass_name,
            on=attempt.on,
            lossy=attempt.step.lossy,
            drift=drift,
            beyond_budget=attempt.objection.beyond_budget,
            beyond_repair=drift > beyond,
            before=models[0],
            after=models[1],
            lab=labs[id(bench)],
        )


def _left_s(time: Deadline, share: float = 0.0) -> float:
    """Seconds of the run that nothing needs; with a share of it also beyond what was announced, as the proof may."""
    share_s = 0.0 if math.isinf(time.announced_s) else share * time.announced_s
    return max(min(share_s, time.end_s), time.spare_s)
