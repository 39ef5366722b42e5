"""Figures of a report as a person reads them, on the page, in the card and in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from optim.cli_kit import NOTHING, size_text
from optim.engine.report import (
    DeviceReport,
    ExportReport,
    GenerationReport,
    Report,
    SourceDriftReport,
    StepReport,
    TargetReport,
    ThroughputReport,
    count_text,
    figure_text,
    ratio_text,
)


def latency_text(milliseconds: float | None) -> str:
    """E.g. ``4.71 ms``."""
    if milliseconds is None:
        return NOTHING
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.3g} s"


def throughput_text(found: ThroughputReport) -> str:
    """E.g. ``310 a second (batch 8, 2 sessions of 1 thread; p95 26 ms)``."""
    return f"{found.samples_per_second:.3g} a second ({found.how}; p95 {latency_text(found.calls_ms.p95)})"


def operator_time_text(milliseconds: float) -> str:
    """E.g. ``4.71 ms``; nothing where the runtime executes no such operator."""
    return f"{milliseconds:.3g} ms" if milliseconds else ""


def drift_text(step: StepReport) -> str:
    """The drift of a step; infinite where it was compared and has no finite figure."""
    if step.drift is None:
        return NOTHING
    return "infinite" if step.drift.relative_error is None else figure_text(step.drift.relative_error)


def export_text(export: ExportReport) -> str:
    """How the original was exported, and how far it is from its source."""
    kept = [step.name for step in export.steps if step.status == "kept"]
    tokens = f", {count_text(export.tokens, 'greedy token')} equal" if export.tokens else ""
    trials = count_text(len(export.trials), "trial")
    drift = figure_text(export.drift.relative_error)
    return f"exported by {', '.join(kept)}: drift {drift} from its source on {trials}{tokens}"


def device_text(found: DeviceReport) -> str:
    """How far the target itself is from an independent runtime, or that nobody knows."""
    if not found.by:
        return "the device itself was compared with no other runtime"
    samples = count_text(found.samples, "sample")
    if found.samples < found.available:
        samples = f"{found.samples} of {found.available} samples, because its time was over"
    return f"the device itself drifts {figure_text(found.drift)} from {found.by}, on {samples}"


def result_drift_text(found: SourceDriftReport) -> str:
    """How far the result is from its source, or why nobody can tell."""
    about = f" ({found.note})" if found.note else ""
    if not found.samples:
        why = found.skipped[0] if found.skipped else "it shares no input with the source"
        return f"result not compared with its source: {found.note or why}"
    limit = f", {figure_text(found.limit)} allowed" if found.limit is not None else ""
    several = f"{found.samples} runs of " if found.samples > len(found.trials) else ""
    several += count_text(len(found.trials) if several else found.samples, "trial")
    left = f"; it does not accept {count_text(len(found.skipped), 'trial')}" if found.skipped else ""
    drift = figure_text(found.drift.relative_error)
    return f"result: drift {drift} from its source on {several}{limit}{left}{about}"


def not_here(steps: Iterable[StepReport]) -> dict[str, list[str]]:
    """Passes that were not tried whatever the model is, by the reason."""
    found: dict[str, list[str]] = {}
    for step in steps:
        if step.not_here and step.pass_name not in found.setdefault(step.reason, []):
            found[step.reason].append(step.pass_name)
    return found


def best_of(steps: Iterable[StepReport]) -> StepReport:
    """The fastest; where none was timed, the one whose drift is smallest, else the first."""
    return min(steps, key=lambda step: (step.ratio_to_original or float("inf"), _drift_or_inf(step)))


def _drift_or_inf(step: StepReport) -> float:
    return float("inf") if step.drift is None or step.drift.relative_error is None else step.drift.relative_error


def generation_figures(before: GenerationReport, after: GenerationReport) -> Iterator[tuple[str, str, str]]:
    """A headline: a title, and the figure before and after."""
    yield "first token", latency_text(before.first_ms), latency_text(after.first_ms)
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"tokens/s at {old.tokens}", f"{old.tokens_per_s:.1f}", f"{new.tokens_per_s:.1f}"
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"past at {old.tokens}", size_text(old.past_bytes), size_text(new.past_bytes)
    yield f"answer of {before.new}", latency_text(before.answer_ms), latency_text(after.answer_ms)


TARGET_COLUMNS = ("target", "runtime", "original", "drift", "best", "result")


def target_rows(report: Report) -> list[tuple[str, ...]]:
    """Rows as :data:`TARGET_COLUMNS` says; none where one target was asked for."""
    return [_row(target) for target in report.targets]


def about_targets(report: Report) -> str:
    """The sentence that explains the figures of the table."""
    return f"ratios are to the original on {report.baseline}; columns original and drift: each target with its defaults"


def _row(target: TargetReport) -> tuple[str, ...]:
    runs = " ".join([target.runtime, *map(str, _version(target))]) or NOTHING
    drift = target.original_drift.relative_error if target.original_drift else None
    became = f"{target.status}: {target.reason}" if target.reason else target.status
    return (
        target.name,
        runs,
        ratio_text(target.original_ratio),
        figure_text(drift),
        ratio_text(target.best_ratio),
        became,
    )


def _version(target: TargetReport) -> list[str]:
    """The version of what runs it, where that goes by the runtime's own name."""
    return [version for name, version in target.versions.items() if name == target.runtime][:1]
