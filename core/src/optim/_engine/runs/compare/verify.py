"""One model verified against another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim._engine.compare.declared import hidden_differences
from optim._engine.feeds.unread_rows import unread_rows
from optim._engine.gate.budget import Budget, Objection
from optim._engine.gate.drift import is_rounding, not_judged, worst_drift, worst_question
from optim._engine.jobs.start_up import Ready
from optim._engine.plugins.registry import require_target
from optim._engine.runs.compare.conditions import Conditions, about_made_up, other_model, workbench_for
from optim._engine.search.measure.racing import check_candidate
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import names_in_messages
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.target import Target

if TYPE_CHECKING:
    from optim._engine.reports.answers import Verification

Say = Callable[[str], None]


def verify_models(
    reference: Path, other: Path, conditions: Conditions, asked: RunSettings, *, other_target: str = ""
) -> Verification:
    """Compare every output of ``other`` with ``reference`` on the same feeds.

    Raises:
        OptimError: a model, the feeds or the target cannot be used.
    """
    elsewhere = require_target(conditions.registry, other_target) if other_target else None
    asked.require_sound()
    with workbench_for(reference, conditions, asked, [other]) as (bench, _):
        found = verify_on(bench, other, asked, elsewhere)
        about = about_made_up((reference, other)) if bench.settings.data is None else ""
        notes = (*found.notes, *filter(None, [bench.target.remark]))
        return found.model_copy(update={"feeds": found.feeds.model_copy(update={"note": about}), "notes": notes})


def verify_on(bench: Workbench, other: Path, asked: RunSettings, elsewhere: Target | None = None) -> Verification:
    """Compare a model with the one that a workbench was prepared for; several may be, one after the other.

    The model runs ``elsewhere``, or where the reference does.

    Raises:
        OptimError: the model cannot be used.
    """
    candidate = other_model(bench, other)
    budget = asked.budget(bench.prepared.tolerance)
    if elsewhere is not None:
        bench = bench.on(elsewhere, {})
    result = check_candidate(bench, candidate)
    is_the_same = elsewhere is None and candidate.model.digest == bench.original.digest
    if result.ready is None:
        raise OptimError(
            "other-failed",
            f"{other} does not run on the same samples",
            result.failure,
            "optim inspect shows its inputs and operators",
        ).naming(names_in_messages(candidate.model.path, other))
    samples = map(bench.reference.feed_set().sample, bench.prepared.compared)
    unread = unread_rows(bench.original.model.path, candidate.model.path, samples)
    notes = unread if bench.prepared.inexact is None else (bench.prepared.inexact.note, *unread)
    notes = (*notes, *(f"{other}: {one}" for one in hidden_differences(bench.original.model, candidate.model)))
    return _verification(bench, result.ready, budget, is_the_same=is_the_same, notes=notes)


def _verification(
    bench: Workbench, ready: Ready, budget: Budget, *, is_the_same: bool, notes: tuple[str, ...]
) -> Verification:
    from optim._engine.reports.answers import ComparedFeeds, ComparedTask, Verification
    from optim._engine.reports.parts import drift_report
    from optim._engine.reports.schema import OutputReport

    comparisons, task = ready.comparisons, ready.task
    if is_the_same:  # one file: no samples are needed to tell
        comparisons = tuple(replace(one, unjudged="") for one in comparisons)
    objection, unjudged = budget.objection(comparisons, lossy=True, task=task), not_judged(comparisons)
    objection = objection or Objection(budget.unseen_objection(ready.unseen, lossy=True))
    is_equal = is_rounding(comparisons) and not budget.unseen_objection(ready.unseen, lossy=False)
    drift, prepared = worst_drift(comparisons), bench.prepared
    figures = prepared.task and task and ComparedTask(metric=prepared.task.metric.text, **to_wire(task))
    return Verification(
        within=not objection and not unjudged,
        judged=bool(objection) or not unjudged,
        reason=objection.text or unjudged,
        tolerance=prepared.tolerance,
        limit=budget.limit(lossy=True),
        lossless=is_equal and not unjudged,
        drift=drift_report(drift, worst_question(comparisons)),
        outputs=tuple(map(OutputReport.of, comparisons)),
        feeds=ComparedFeeds(origin=prepared.origin, samples=prepared.available, compared=len(prepared.compared)),
        task=figures or None,
        notes=notes,
    )
