"""How the original was exported, as ``report.json`` has it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from optim._engine.reports.parts.figures import DriftReport, Figure, Part, drift_report

if TYPE_CHECKING:
    from optim._engine.sources.exported import ExportedSource
    from optim._engine.sources.result import SourceDrift


class ExportStepReport(Part):
    """One pass over the source, or one exporter on one component."""

    name: str = Field(description="name of the pass or exporter")
    plugin: str = Field(description="plugin with the pass")
    stage: str = Field(description="stage of the pass")
    status: Literal["kept", "dropped", "not-applicable", "failed", "skipped"] = Field(description="outcome of the step")
    reason: str = Field(description="reason for the outcome")
    component: str = Field(description="component of the source; empty if the pass changes the whole source")
    options: dict[str, Any] = Field(description="options of the pass")
    counts: dict[str, int] = Field(description="counts that the pass reports")
    notes: tuple[str, ...] = Field(description="notes of the pass")
    seconds: float = Field(description="seconds of this step")
    printed: tuple[str, ...] = Field(default=(), description="text that the pass printed")


class SourceDriftReport(Part):
    """How far the result is from what the source itself computes."""

    drift: DriftReport = Field(description="drift of the worst output")
    samples: int = Field(description="number of compared runs; 0 if the result accepts none of the trials")
    trials: tuple[str, ...] = Field(description="shapes, padding and lengths of the past on which it was compared")
    skipped: tuple[str, ...] = Field(description="trials that the result does not accept, with the reason")
    worst: str = Field(description="output with the worst drift, and its trial")
    limit: Figure = Field(description="limit of the drift; null if there is none")
    note: str = Field(
        default="", description="why the result was not compared with the source, or less of it; else empty"
    )


class ExportReport(Part):
    """How the original was exported, and how far it is from its source."""

    source: str = Field(description="source as given")
    component: str = Field(description="component of the source")
    drift: DriftReport = Field(description="drift from the outputs of the source, over all trials")
    trials: tuple[str, ...] = Field(description="shapes, padding and lengths of the past on which it was compared")
    skipped: tuple[str, ...] = Field(description="trials that the source refuses, with the reason")
    tokens: int = Field(description="number of compared tokens of greedy generation")
    result_drift: SourceDriftReport | None = Field(
        default=None,
        description="drift of the result from the outputs of the source; null if the result is the exported graph",
    )
    steps: tuple[ExportStepReport, ...] = Field(description="passes over the source, and exporters")
    notes: tuple[str, ...] = Field(description="notes of the export")


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
