"""Lines of figures against sizes, both axes by factors: what doubles with its size is a straight line."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from optim_plugins.drawing import Canvas, Scale, dot, drawing, line, shortened, text

_LEFT, _TOP, _HIGH, _RIGHT = 70, 40, 300, 40
_ROW = 20
_BESIDE = 16
"""Pixels that two labels of an axis need."""
_FILE = Canvas("wide", 760, 0, _ROW)
_KINDS = ("mark", "won", "budget", "missed", "base", "quick")
"""Classes whose colours tell lines apart; after these they are taken again."""


def line_plot(
    series: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    across: str,
    unit: str,
    canvas: Canvas | None = None,
) -> str:
    """The lines with their axes and a legend; says so where there are none.

    Args:
        series: size and figure of each point, by size, of each line by its name.
        title: of the plot; drawn in a file of its own only, because a page has a heading.
        across: what the sizes are of.
        unit: of the figures.
        canvas: on a page; by default that of a file of its own.
    """
    points = [point for line_points in series.values() for point in line_points if min(point) > 0]
    on = canvas or _FILE
    height, right = _TOP + _HIGH + 60 + _ROW * len(series), on.width - _RIGHT
    parts = [] if canvas else [text(_LEFT, 22, title, kind="strong")]
    if not points:
        return drawing(
            on.width, height, title, [*parts, text(_LEFT, _TOP + 20, "nothing could be timed")], kind=on.kind
        )
    x = _scale([size for size, _ in points], _LEFT, right)
    y = _scale([figure for _, figure in points], _TOP + _HIGH, _TOP)
    bottom = _TOP + _HIGH
    parts += [line(_LEFT, bottom, right, bottom, "axis"), line(_LEFT, _TOP, _LEFT, bottom, "axis")]
    for size in sorted({size for size, _ in points}):
        parts += [line(x.at(size), bottom, x.at(size), bottom + 4, "axis")]
        parts.append(text(x.at(size), bottom + 18, f"{size:g}", anchor="middle", kind="dim"))
    between = [tick for tick in y.ticks() if _TOP + _BESIDE <= y.at(tick) <= bottom - _BESIDE]
    for figure in (y.low, *between, y.high):
        parts.append(line(_LEFT, y.at(figure), right, y.at(figure), "grid"))
        parts.append(text(_LEFT - 6, y.at(figure) + 4, _figure(figure), anchor="end", kind="dim"))
    parts += [
        text((_LEFT + right) / 2, bottom + 36, across, anchor="middle", kind="dim"),
        text(8, _TOP - 14, unit, kind="dim"),
    ]
    for place, (name, line_points) in enumerate(series.items()):
        colour = _KINDS[place % len(_KINDS)]
        at = [(x.at(size), y.at(figure), size, figure) for size, figure in line_points if min(size, figure) > 0]
        parts += [line(*a[:2], *b[:2], colour) for a, b in itertools.pairwise(at)]
        parts += [dot(a, b, 4, colour, f"{name}: {_figure(figure)} {unit} at {size:g}") for a, b, size, figure in at]
        row = bottom + 60 + _ROW * place
        parts += [dot(_LEFT + 6, row - 4, 4, colour, name), text(_LEFT + 18, row, shortened(name, 90))]
    return drawing(on.width, height, title, parts, kind=on.kind)


def _figure(value: float) -> str:
    """Three digits, and no power of ten for thousands."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _scale(values: Sequence[float], start: float, end: float) -> Scale:
    """By factors; a single value stands in the middle."""
    low, high = min(values), max(values)
    return Scale(low, high, start, end, log=True) if low < high else Scale(low / 2, high * 2, start, end, log=True)
