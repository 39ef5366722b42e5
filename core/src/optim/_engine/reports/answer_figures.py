"""What a report shows of an answer: figures before and after, and a plot of tokens per second by depth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from optim._engine.drawing.svg import WIDE, Canvas, Scale, dot, line, svg, text
from optim._engine.reports.parts.generation import GenerationReport
from optim._engine.reports.schema import Report
from optim._engine.reports.words import latency_text, size_text

_TOP, _BOTTOM = 34, 220


def generation_figures(before: GenerationReport, after: GenerationReport) -> Iterator[tuple[str, str, str]]:
    """What a person looks for: a title, and the figure before and after."""
    yield "first token", latency_text(before.first_ms), latency_text(after.first_ms)
    for old, new in zip(before.depths, after.depths, strict=True):
        yield f"tokens/s at {old.tokens}", f"{old.tokens_per_s:.1f}", f"{new.tokens_per_s:.1f}"
    last, new = before.depths[-1], after.depths[-1]
    yield f"past at {last.tokens}", size_text(last.past_bytes), size_text(new.past_bytes)
    yield f"answer of {before.new}", latency_text(before.answer_ms), latency_text(after.answer_ms)


def tokens_plot(report: Report, canvas: Canvas = WIDE) -> str:
    """Tokens per second by depth, of the original and of the result; empty where the goal is another."""
    before = report.original.generation
    after = report.result.generation if report.result else None
    if before is None or after is None:
        return ""
    left, right = 60, canvas.width - 30
    depths = [one.tokens for one in before.depths]
    most = max(one.tokens_per_s for found in (before, after) for one in found.depths)
    span = max(1, depths[-1] - depths[0])
    across = Scale(depths[0] - 0.05 * span, depths[-1] + 0.05 * span, left, right)
    up = Scale(0.0, 1.15 * most, _BOTTOM, _TOP)
    parts = [text(left - 46, _TOP - 14, "tokens per second", kind="dim")]
    for tick in up.ticks():
        parts.append(line(left, up.at(tick), right, up.at(tick), "grid"))
        parts.append(text(left - 8, up.at(tick) + 4, f"{tick:g}", anchor="end", kind="dim"))
    parts += [text(across.at(depth), _BOTTOM + 18, str(depth), anchor="middle", kind="dim") for depth in depths]
    parts.append(text(right, _BOTTOM + 36, "tokens of the past", anchor="end", kind="dim"))
    for found, kind, name in ((before, "base", "original"), (after, "won", "result")):
        places = [(across.at(one.tokens), up.at(one.tokens_per_s)) for one in found.depths]
        parts += [line(*start, *end, kind) for start, end in pairwise(places)]
        for (x, y), one in zip(places, found.depths, strict=True):
            parts.append(dot(x, y, 5, kind, f"{name}: {one.tokens_per_s:.1f} tokens per second at {one.tokens}"))
        parts.append(text(places[0][0], places[0][1] - 10, name))
    return svg(canvas.width, _BOTTOM + 46, "tokens per second by depth", parts, kind=canvas.kind)
