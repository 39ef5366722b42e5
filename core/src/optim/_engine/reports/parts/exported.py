"""How the original was exported, as ``report.json`` has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from optim._engine.reports.parts.drifted import DriftReport, drift_report
from optim._engine.reports.parts.fields import Figure, Part

if TYPE_CHECKING:
    from optim._engine.sources.exported import ExportedSource
    from optim._engine.sources.result import SourceDrift


class ExportStepReport(Part):
    """One pass over the source, or one exporter on one component."""

    name: str
    plugin: str
    stage: str
    status: Literal["kept", "dropped", "not-applicable", "failed", "skipped"]
    reason: str
    component: str = Field(description="empty for a pass over the whole source")
    options: dict[str, Any]
    counts: dict[str, int]
    notes: tuple[str, ...]
    seconds: float
    printed: tuple[str, ...] = Field(default=(), description="what it printed")


class SourceDriftReport(Part):
    """How far the result is from what the source itself computes."""

    drift: DriftReport
    samples: int = Field(description="runs compared; 0 where the result takes none of the trials")
    trials: tuple[str, ...] = Field(description="shapes, padding and past lengths it was held against")
    skipped: tuple[str, ...] = Field(description="trials that the result does not take, with the reason")
    worst: str = Field(description="the output that is furthest, and on which trial")
    limit: Figure = Field(description="what it was held to; null where nothing bounds the drift")
    note: str = ""


class ExportReport(Part):
    """How the original was exported, and how far it is from its source."""

    source: str
    component: str
    drift: DriftReport = Field(description="from what the source itself computes, on every trial")
    trials: tuple[str, ...] = Field(description="shapes, padding and past lengths it was held against")
    skipped: tuple[str, ...] = Field(description="trials that the source itself refuses, with the reason")
    tokens: int = Field(description="greedy tokens compared one by one")
    result_drift: SourceDriftReport | None = Field(
        default=None, description="of the result, from the same record; null where it is the exported graph itself"
    )
    steps: tuple[ExportStepReport, ...]
    notes: tuple[str, ...]


def export_report(made: ExportedSource, component: str | None, result: SourceDrift | None) -> ExportReport:
    """The report of an export.

    Args:
        made: the source that was exported.
        component: of it; None: the first.
        result: how far what is delivered is from the source; None where it was not held against it.
    """
    component = component or made.graphs[0].component
    found = next(verified for verified in made.verified if verified.component == component)
    return ExportReport(
        source=made.request.spec,
        component=component,
        drift=drift_report(found.drift),
        trials=found.trials,
        skipped=found.skipped,
        tokens=found.tokens,
        result_drift=_source_drift(result) if result is not None else None,
        steps=tuple(
            ExportStepReport(**{**asdict(step), "stage": step.stage.value})
            for step in made.steps
            if step.component in ("", component)
        ),
        notes=(*made.notes, *found.notes),
    )


def _source_drift(found: SourceDrift) -> SourceDriftReport:
    return SourceDriftReport(
        drift=drift_report(found.drift),
        samples=found.samples,
        trials=found.trials,
        skipped=found.skipped,
        worst=f"output '{found.output}' {found.place}" if found.output else "",
        limit=found.limit,
        note=found.note,
    )
