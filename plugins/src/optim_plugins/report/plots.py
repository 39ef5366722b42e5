"""The plots of ``report.html``: latencies and their intervals, the steps of the result, all models, tokens a second."""

from __future__ import annotations

import math
from collections.abc import Sequence

from optim.cli_kit import NOTHING, size_text
from optim.engine.report import PointReport, Report, StepReport, figure_text, ratio_text
from optim_plugins.drawing import WIDE, Canvas, Scale, bar, dot, drawing, interval, line, text
from optim_plugins.report.lines import line_plot
from optim_plugins.report.words import latency_text

_TOP = 34
_SLOWEST = 2.0
"""Slower points are drawn at the edge."""
_UNDER = 24
"""Room below the row of rounding error, for the word that names the original: numbers stand above their points."""
_ABOVE = 34
"""From the row of rounding error to the axis of drift, which begins at the least drift of a lossy model."""


def latency_plot(report: Report, canvas: Canvas = WIDE) -> str:
    """Latency of the original and of every proven point, as a ratio with its 95 % interval; empty where nothing ran."""
    rows = [point for point in report.points if point.proven and point.latency_ratio is not None]
    if report.original.latency_ms is None or not rows:
        return ""
    ends = [point.latency_ratio_ci[1] if point.latency_ratio_ci else point.latency_ratio or 0.0 for point in rows]
    most = min(_SLOWEST, 1.05 * max([1.0, *ends]))
    figures = canvas.width - 100 if canvas.labels else canvas.width - 66
    scale = Scale(0.0, most, canvas.labels or 8, figures - 10)
    bottom = _TOP + (len(rows) + 1) * canvas.row
    parts = _grid(scale, _TOP - 8, bottom)
    first = _TOP + canvas.row - 13
    parts += [
        canvas.label(first, "original"),
        interval(scale, first - 4, 1.0, None, "base", "the original"),
        text(figures, first, latency_text(report.original.latency_ms)),
    ]
    for place, point in enumerate(rows, 1):
        y, ratio = first + place * canvas.row, point.latency_ratio or 0.0
        low_high = point.latency_ratio_ci
        about = f"{ratio:.3f}" + (f", {low_high[0]:.3f} to {low_high[1]:.3f}" if low_high else "")
        parts += [
            canvas.label(y, _name(point)),
            interval(scale, y - 4, ratio, low_high, _kind(point), about),
            text(figures, y, latency_text(point.latency_ms), kind="dim"),
        ]
    return drawing(canvas.width, bottom + 34, "latency of each model with its interval", parts, kind=canvas.kind)


def steps_plot(report: Report, canvas: Canvas = WIDE) -> str:
    """Latency, size and drift after each step of the result; empty where nothing was kept."""
    kept = [step for step in report.steps if step.status == "kept"]
    if report.result is None or not kept:
        return ""
    column, gap = (canvas.width - canvas.labels) / 3, 74 if canvas.labels else 62
    last = report.result
    ratios = [1.0, *(step.ratio_to_original for step in kept[:-1]), last.latency_ratio]
    sizes = [report.original.size_bytes, *(step.size_bytes for step in kept[:-1]), last.size_bytes]
    drifts = [0.0, *(_drift(step) for step in kept[:-1]), last.drift.relative_error]
    titles = ("latency, ratio", "size", "drift")
    texts = (ratio_text, size_text, figure_text)
    columns: tuple[Sequence[float | None], ...] = (ratios, sizes, drifts)
    parts = [text(round(canvas.labels + i * column, 1), 16, title, kind="dim") for i, title in enumerate(titles)]
    names = ["original", *(step.pass_name for step in kept)]
    for place, name in enumerate(names):
        y = _TOP + (place + 1) * canvas.row - 26
        parts.append(canvas.label(y + 13, ("+ " if place else "") + name))
        for number, values in enumerate(columns):
            x, value = round(canvas.labels + number * column, 1), values[place]
            most = max([one for one in values if one] or [1.0])
            if value is None:
                parts.append(text(x, y + 13, NOTHING, kind="dim"))
                continue
            kind = "quick" if place == 0 else "won"
            length = (column - gap) * value / most
            parts += [bar(x, y + 3, length, 13, kind), text(round(x + length + 6, 1), y + 13, texts[number](value))]
    height = _TOP + len(names) * canvas.row + 8
    return drawing(canvas.width, height, "latency, size and drift step by step", parts, kind=canvas.kind)


def points_plot(report: Report, canvas: Canvas = WIDE) -> str:
    """Speed against drift of every model that was measured, with the front and the budget; empty without any."""
    points = [point for point in report.points if point.latency_ratio is not None and _amount(point) is not None]
    if not points:
        return ""
    budget = report.tolerance if report.budget.lossless else report.budget.max_drift
    amounts = [amount for point in points if (amount := _amount(point))]
    ends = [*amounts, *([budget] if budget else [])] or [report.tolerance]
    left, right, top, bottom = (70, canvas.width - 30, 24, 360) if canvas.labels else (64, canvas.width - 14, 24, 300)
    slowest = max([1.0, *(point.latency_ratio or 0.0 for point in points)])
    across = Scale(0.0, min(_SLOWEST, 1.05 * slowest), left, right)
    up = Scale(min(ends) / 1.5, 1.5 * max(ends), bottom - _UNDER - _ABOVE, top, log=True)
    lossless = bottom - _UNDER
    parts = _grid(across, top, bottom)
    for tick in up.ticks():
        parts += [
            line(left, up.at(tick), right, up.at(tick), "grid"),
            text(left - 8, up.at(tick) + 4, f"{tick:g}", anchor="end", kind="dim"),
        ]
    parts += [
        text(14, top - 8, "drift", kind="dim"),
        line(left, lossless, right, lossless, "grid"),
        text(left - 8, lossless + 4, "rounding", anchor="end", kind="dim"),
        dot(across.at(1.0), lossless, 5, "base", "the original"),
        text(across.at(1.0), lossless + 17, "original", anchor="middle"),
    ]
    if budget is not None:
        parts += [
            line(left, up.at(budget), right, up.at(budget), "budget"),
            text(right, up.at(budget) - 5, f"budget {figure_text(budget)}", anchor="end", kind="budget-text"),
        ]
    places = [
        (across.at(point.latency_ratio or 0.0), up.at(amount) if (amount := _amount(point)) else lossless, point)
        for point in points
    ]
    front = sorted((x, y) for x, y, point in places if point.number)
    if len(front) > 1:
        path = " ".join(f"{x},{y}" for x, y in front)
        parts.append(f'<polyline points="{path}" class="front"/>')
    for x, y, point in sorted(places, key=lambda item: (item[2].proven, item[2].delivered)):
        radius = 7 if point.delivered else 5 if point.proven else 3
        parts.append(dot(x, y, radius, _kind(point), _about(point)))
        if point.number:
            parts.append(text(x + 8, y - 6, str(point.number)))
        elif not point.within:
            parts.append(text(x + 8, y - 6, "nearest"))
    return drawing(
        canvas.width, bottom + 36, "speed against drift of every model that was measured", parts, kind=canvas.kind
    )


def _grid(scale: Scale, top: float, bottom: float) -> list[str]:
    """Lines for ratios of latency, and what they are."""
    parts = [line(scale.start, bottom, scale.end, bottom, "axis")]
    for tick in scale.ticks():
        x = scale.at(tick)
        parts += [line(x, top, x, bottom, "grid"), text(x, bottom + 15, f"{tick:g}", anchor="middle", kind="dim")]
    parts.append(
        text((scale.start + scale.end) / 2, bottom + 31, "latency, ratio to the original", anchor="middle", kind="dim")
    )
    return parts


def _kind(point: PointReport) -> str:
    if not point.within:
        return "missed"
    return "won" if point.delivered else "mark" if point.proven else "quick"


def _name(point: PointReport) -> str:
    """Its number and the passes that set it apart, without their options."""
    passes = " + ".join(step.partition(" (")[0].rpartition(".")[2] for step in point.chain)
    word = f"{point.number}  " if point.number else "" if point.within else "nearest  "
    return f"{word}{passes}"


def _about(point: PointReport) -> str:
    drift = "infinite" if point.drift.relative_error is None else figure_text(point.drift.relative_error)
    task = "" if point.task_value is None else f", metric {point.task_value:.4g}"
    look = "" if point.proven else " (a quick look)"
    figures = f"ratio {ratio_text(point.latency_ratio)}, drift {drift}{task}, {size_text(point.size_bytes)}{look}"
    return f"{figures}\n" + "\n".join(point.chain)


def _amount(point: PointReport) -> float | None:
    """Its drift; 0 for a model with rounding error only, which has a row of its own."""
    drift = point.drift.relative_error
    return None if drift is None or not math.isfinite(drift) else drift if point.lossy else 0.0


def _drift(step: StepReport) -> float | None:
    return step.drift.relative_error if step.drift else None


def tokens_plot(report: Report, canvas: Canvas = WIDE) -> str:
    """Tokens per second by depth, of the original and of the result; empty where the goal is another."""
    before = report.original.generation
    after = report.result.generation if report.result else None
    if before is None or after is None:
        return ""
    lines = {
        name: [(one.tokens, one.tokens_per_s) for one in found.depths]
        for name, found in (("the original", before), ("the result", after))
    }
    return line_plot(lines, "tokens per second by depth", "tokens of the past", "tokens/s", canvas)
