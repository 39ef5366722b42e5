"""What the page and the terminal both show: figures of an answer before and after, and the targets that competed."""

from __future__ import annotations

from collections.abc import Iterator

from optim._engine.reports.lines import Series, line_plot
from optim._engine.reports.parts.running import GenerationReport
from optim._engine.reports.schema import Report, TargetReport
from optim._engine.reports.words import NOTHING, figure_text, latency_text, ratio_text, size_text
from optim.drawing.svg import WIDE, Canvas


def generation_figures(before: GenerationReport, after: GenerationReport) -> Iterator[tuple[str, str, str]]:
    """What a person looks for: a title, and the figure before and after."""
    yield "first token", latency_text(before.first_ms), latency_text(after.first_ms)
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"tokens/s at {old.tokens}", f"{old.tokens_per_s:.1f}", f"{new.tokens_per_s:.1f}"
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"past at {old.tokens}", size_text(old.past_bytes), size_text(new.past_bytes)
    yield f"answer of {before.new}", latency_text(before.answer_ms), latency_text(after.answer_ms)


def tokens_plot(report: Report, canvas: Canvas = WIDE) -> str:
    """Tokens per second by depth, of the original and of the result; empty where the goal is another."""
    before = report.original.generation
    after = report.result.generation if report.result else None
    if before is None or after is None:
        return ""
    lines = [
        Series(name, tuple((one.tokens, one.tokens_per_s) for one in found.depths))
        for name, found in (("the original", before), ("the result", after))
    ]
    return line_plot(lines, "tokens per second by depth", "tokens of the past", "tokens/s", canvas)


TARGET_COLUMNS = ("target", "runtime", "original", "drift", "best", "result")


def target_rows(report: Report) -> list[tuple[str, ...]]:
    """Rows as :data:`TARGET_COLUMNS` says; none where one target was asked for."""
    return [_row(target) for target in report.targets]


def about_targets(report: Report) -> str:
    """What the figures of the table are, in a sentence."""
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
