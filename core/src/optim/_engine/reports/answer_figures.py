"""What a report shows of an answer: figures before and after, and a plot of tokens per second by depth."""

from __future__ import annotations

from collections.abc import Iterator

from optim._engine.reports.lines import Series, line_plot
from optim._engine.reports.parts.running import GenerationReport
from optim._engine.reports.schema import Report
from optim._engine.reports.words import latency_text, size_text


def generation_figures(before: GenerationReport, after: GenerationReport) -> Iterator[tuple[str, str, str]]:
    """What a person looks for: a title, and the figure before and after."""
    yield "first token", latency_text(before.first_ms), latency_text(after.first_ms)
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"tokens/s at {old.tokens}", f"{old.tokens_per_s:.1f}", f"{new.tokens_per_s:.1f}"
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"past at {old.tokens}", size_text(old.past_bytes), size_text(new.past_bytes)
    yield f"answer of {before.new}", latency_text(before.answer_ms), latency_text(after.answer_ms)


def tokens_plot(report: Report) -> str:
    """Tokens per second by depth, of the original and of the result; empty where the goal is another."""
    before = report.original.generation
    after = report.result.generation if report.result else None
    if before is None or after is None:
        return ""
    lines = [
        Series(name, tuple((one.tokens, one.tokens_per_s) for one in found.depths))
        for name, found in (("the original", before), ("the result", after))
    ]
    return line_plot(lines, "tokens per second by depth", "tokens of the past", "tokens/s", kind="graph")
