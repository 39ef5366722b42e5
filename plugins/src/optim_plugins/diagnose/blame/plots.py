"""How an error grows along a graph, and how the values of one tensor lie in two models."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from optim_plugins.drawing import WIDE, Canvas, Scale, bar, dot, drawing, line, shortened, text

_FLOOR = 1e-8
"""Relative L2 below which two values are drawn as equal: float32 rounds by 6e-8."""

_MOST_DOTS = 400
"""Values of a drawing; of more, the largest error of each stretch is drawn."""

_BARS = 360
"""Width of a histogram: narrower than a telephone, so one drawing is for all pages."""


def growth_plot(growth: Sequence[tuple[str, float | None]], marked: Collection[str], canvas: Canvas = WIDE) -> str:
    """The error of each value that both models have, in graph order; empty for fewer than two.

    Args:
        growth: names and relative L2; None where the error is beyond all numbers.
        marked: names that are blamed.
        canvas: what it is drawn on.
    """
    if len(growth) < 2:
        return ""
    numbers = [error for _, error in growth if error is not None]
    highest = max([10 * _FLOOR, *numbers])
    left, right, top, bottom = 62, canvas.width - 14, 22, 230
    across = Scale(0, len(growth) - 1, left, right)
    up = Scale(_FLOOR, 3 * highest, bottom, top + 12, log=True)
    parts = [line(left, bottom, right, bottom, "axis"), text(14, 12, "error of the value", kind="dim")]
    for tick in up.ticks():
        parts += [
            line(left, up.at(tick), right, up.at(tick), "grid"),
            text(left - 6, up.at(tick) + 4, f"{tick:g}", anchor="end", kind="dim"),
        ]
    parts.append(text((left + right) / 2, bottom + 18, "values in the order of the graph", anchor="middle", kind="dim"))
    places = _drawn(growth, marked)
    points = [(across.at(i), up.at(max(error, _FLOOR))) for i, _, error in places if error is not None]
    parts.append(f'<polyline points="{" ".join(f"{x},{y}" for x, y in points)}" class="front"/>')
    for i, name, error in places:
        y = float(top) if error is None else up.at(max(error, _FLOOR))
        said = "beyond all numbers" if error is None else f"{error:.3g}"
        kind = "missed" if name in marked else "base" if error is None else "mark"
        parts.append(dot(across.at(i), y, 5 if name in marked else 2, kind, f"{name}: {said}"))
    if any(error is None for _, _, error in places):
        parts.append(text(left - 6, top + 4, "lost", anchor="end", kind="dim"))
    return drawing(canvas.width, bottom + 26, "error of each value in graph order", parts, kind=canvas.kind)


def histogram_plot(title: str, edges: Sequence[float], counts: tuple[Sequence[int], Sequence[int]]) -> str:
    """How often which values occur in a tensor: bars are the model's, the line is the reference's.

    Args:
        title: what the tensor is called.
        edges: of the bins, one more than there are bins.
        counts: of the reference and of the model.
    """
    most = max([*counts[0], *counts[1]], default=0)
    if not most or len(edges) < 2:
        return ""
    left, right, top, bottom = 8, _BARS - 8, 26, 130
    across = Scale(edges[0], edges[-1] if edges[-1] > edges[0] else edges[0] + 1, left, right)
    up = Scale(0, math.sqrt(most), bottom, top)  # the square root: tails are seen too
    parts = [text(left, 14, shortened(title, 50)), line(left, bottom, right, bottom, "axis")]
    steps = []
    for place, (ours, theirs) in enumerate(zip(*counts, strict=True)):
        x, end = across.at(edges[place]), across.at(edges[place + 1])
        if theirs:
            parts.append(bar(x + 1, up.at(math.sqrt(theirs)), end - x - 2, bottom - up.at(math.sqrt(theirs)), "quick"))
        y = up.at(math.sqrt(ours))
        steps += [f"{x},{y}", f"{end},{y}"]
    parts.append(f'<polyline points="{" ".join(steps)}" class="outline"/>')
    parts += [
        text(left, bottom + 16, f"{edges[0]:.3g}", kind="dim"),
        text(right, bottom + 16, f"{edges[-1]:.3g}", anchor="end", kind="dim"),
    ]
    return drawing(_BARS, bottom + 22, f"values of {title} in both models", parts, kind="bars")


def _drawn(growth: Sequence[tuple[str, float | None]], marked: Collection[str]) -> list[tuple[int, str, float | None]]:
    """Places, names and errors of what is drawn: all of few values, and what is marked in any case."""
    stretch = max(1, math.ceil(len(growth) / _MOST_DOTS))
    found = []
    for begin in range(0, len(growth), stretch):
        part = [(begin + i, *pair) for i, pair in enumerate(growth[begin : begin + stretch])]
        worst = max(part, key=lambda one: math.inf if one[2] is None else one[2])
        found += [one for one in part if one is worst or one[1] in marked]
    return found
