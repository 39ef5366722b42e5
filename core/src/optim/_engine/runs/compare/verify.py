"""One model verified against another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from optim._engine.compare.distrust import hidden_differences
from optim._engine.feeds.traces import unread_rows
from optim._engine.gate.budget import Objection
from optim._engine.gate.drift import is_rounding, not_judged, worst_drift, worst_question
from optim._engine.plugins.registry import load_registry, require_target
from optim._engine.reports.answers import ComparedFeeds, ComparedTask, Verification
from optim._engine.reports.build import drift_report
from optim._engine.reports.schema import OutputReport
from optim._engine.runs.compare.prepared import Say, about_made_up, other_model, require_ready, workbench_for
from optim._engine.search.measure.racing import Races
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim.target import Target


def verify_models(
    reference: Path, other: Path, asked: RunSettings, say: Say, *, other_target: str = ""
) -> Verification:
    """Compare every output of ``other`` with ``reference`` on the same feeds."""
    elsewhere = require_target(load_registry(), other_target) if other_target else None
    asked.require_sound()
    with workbench_for(reference, asked, say, [other]) as (bench, _):
        about = about_made_up((reference, other)) if bench.settings.data is None else ""
        return verify_on(bench, other, asked, elsewhere, about)


def verify_on(
    bench: Workbench, other: Path, asked: RunSettings, elsewhere: Target | None = None, about_feeds: str = ""
) -> Verification:
    """Compare a model with the one that a workbench was prepared for; several may be, one after the other.

    The model runs ``elsewhere``, or where the reference does.
    """
    candidate, prepared, original = other_model(bench, other), bench.prepared, bench.original.model
    result = Races(bench.on(elsewhere, {}) if elsewhere else bench).check(candidate)
    ready = require_ready(result, candidate.model, other)
    samples = map(bench.reference.feed_set().sample, prepared.compared)
    notes = [] if prepared.inexact is None else [prepared.inexact.note]
    notes += unread_rows(original.path, candidate.model.path, samples)
    notes += (f"{other}: {one}" for one in hidden_differences(original, candidate.model))
    notes += filter(None, [bench.target.remark])
    comparisons, task, budget = ready.comparisons, ready.task, asked.budget(prepared.tolerance)
    if elsewhere is None and candidate.digest == original.digest:  # one file: no samples are needed to tell
        comparisons = tuple(replace(one, unjudged="") for one in comparisons)
    objection, unjudged = budget.objection(comparisons, lossy=True, task=task), not_judged(comparisons)
    objection = objection or Objection(budget.unseen_objection(ready.unseen, lossy=True))
    is_equal = is_rounding(comparisons) and not budget.unseen_objection(ready.unseen, lossy=False)
    figures = prepared.task and task and ComparedTask.of(task, metric=prepared.task.metric.text)
    return Verification(
        within=not objection and not unjudged,
        judged=bool(objection) or not unjudged,
        reason=objection.text or unjudged,
        tolerance=prepared.tolerance,
        limit=budget.limit(lossy=True),
        lossless=is_equal and not unjudged,
        drift=drift_report(worst_drift(comparisons), worst_question(comparisons)),
        outputs=tuple(map(OutputReport.of, comparisons)),
        feeds=ComparedFeeds(
            origin=prepared.origin, samples=prepared.available, compared=len(prepared.compared), note=about_feeds
        ),
        task=figures or None,
        notes=tuple(notes),
    )
