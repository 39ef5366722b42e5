"""Where the time of models goes, without a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from optim._engine.diagnosis.timing import profile_job
from optim._engine.jobs import prepare
from optim._engine.runs.compare.conditions import Conditions, notes_on_targets, other_model, workbench_for


@dataclass(frozen=True, slots=True)
class Profiled:
    """What was found, on which feeds, and what to know of it."""

    found: profile_job.Answer
    prepared: prepare.Answer
    notes: tuple[str, ...] = ()


def profile_models(models: Sequence[Path], conditions: Conditions, *, seconds: float, trace: Path | None) -> Profiled:
    """Time the nodes of models; the second is joined with the first.

    Args:
        models: ``.onnx`` files, opened with the backend's defaults, or run folders, with their settings.
        conditions: under which they run.
        seconds: of runs for each.
        trace: write a trace of Chrome's format there.

    Raises:
        OptimError: not-profiled; a model or the feeds cannot be used.
    """
    with workbench_for(models[0], conditions, beside=models[1:]) as (bench, first):
        candidates = [first, *(other_model(bench, path) for path in models[1:])]
        request = profile_job.Request(
            models=tuple(one.model for one in candidates),
            place=bench.place,
            feeds=bench.reference.feeds,
            samples=bench.prepared.compared,
            seconds=seconds,
            store=bench.store.models,
            trace=str(trace.absolute()) if trace else "",
        )
        with bench.turns.turn():
            found = bench.need(profile_job.JOB, request, "profile")
        return Profiled(found, bench.prepared, notes_on_targets(bench, models, candidates))
