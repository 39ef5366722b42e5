"""Parts of plots and graphs: SVG inside a page, coloured by its variables, or as a file of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from optim.cli_kit import printable

STYLE = (
    ".plot { display: block; width: 100%; height: auto; font-size: 12px; } .plot text { fill: var(--text); }"
    " .plot.slim { display: none; }"
    " @media screen and (max-width: 680px) { .plot.wide { display: none; } .plot.slim { display: block; } }"
    " .plot .dim { fill: var(--faint); } .plot .grid { stroke: var(--line); } .plot .axis { stroke: var(--bar); }"
    " .plot .mark { fill: var(--calm); stroke: var(--calm); } .plot .won { fill: var(--good); stroke: var(--good); }"
    " .plot .missed { fill: var(--bad); stroke: var(--bad); } .plot .quick { fill: var(--bar); stroke: none; }"
    " .plot .front { fill: none; stroke: var(--calm); stroke-dasharray: 2 3; }"
    " .plot .budget { stroke: var(--warn); stroke-dasharray: 6 4; } .plot .budget-text { fill: var(--warn); }"
    " .plot .base { fill: var(--text); stroke: var(--text); }"
    " .plot.bars { max-width: 360px; } .plot .outline { fill: none; stroke: var(--calm); stroke-width: 1.5; }"
    " .plot.graph { display: block; max-width: 100%; } .plot .edge { fill: none; stroke: var(--faint); }"
    " .plot .box { fill: var(--card); stroke: var(--bar); } .plot .box.missed { stroke: var(--bad); stroke-width: 2; }"
    " .plot .box.end { fill: none; } .plot .strong { font-weight: 600; } .plot.graph text { font-size: 11px; }"
)

_COLOURS = {
    "text": "#1b1f26",
    "faint": "#626b79",
    "line": "#dde1e7",
    "bar": "#b9c1cd",
    "card": "#f6f7f9",
    "calm": "#1f5fa8",
    "good": "#17713a",
    "warn": "#8a5a00",
    "bad": "#b3261e",
}
"""Of a page by day: what a drawing has that is a file of its own."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions in a drawing.

    Attributes:
        low: the smallest value.
        high: the largest value.
        start: position of the smallest value.
        end: position of the largest value.
        log: whether the scale is logarithmic.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Returns the position of a value. A value outside of the scale is at its edge."""
        value = min(max(value, self.low), self.high)
        share = (
            math.log(value / self.low) / math.log(self.high / self.low)
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Returns round values to mark, at most about seven.

        On a log scale these are powers of ten, and their 2 and 5 if the scale is short.
        """
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            if last - first < 2:
                steps = (factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5))
                return [value for value in steps if self.low <= value <= self.high]
            step = max(1, math.ceil((last - first) / 6))
            return [10.0**power for power in range(first, last + 1, step)]
        rough = (self.high - self.low) / 6
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [round(step * (first + i), 10) for i in range(int((self.high - first * step) / step + 1e-9) + 1)]


def drawing(width: int, height: int, title: str, parts: Sequence[str], *, kind: str) -> str:
    """Makes a whole drawing.

    ``title`` describes it for readers who cannot see it, ``kind`` selects the pages that show it.
    """
    return (
        f'<svg class="plot {kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(printable(title))}">'
        + "".join(parts)
        + "</svg>"
    )


def standalone(drawing: str) -> str:
    """Makes the text of an ``.svg`` file from a drawing, with its own colours on white."""
    style = re.sub(r"@media[^{]*{.*?} }", "", STYLE)
    for name, colour in _COLOURS.items():
        style = style.replace(f"var(--{name})", colour)
    width, height = re.findall(r'viewBox="0 0 (\d+) (\d+)"', drawing)[0]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
    begin = drawing.index(">") + 1
    opening = drawing[:begin].replace("<svg", head, 1)
    return f'{opening}<style>{style}</style><rect width="100%" height="100%" fill="white"/>{drawing[begin:]}\n'


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """Draws one line of text."""
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{css}>{escape(printable(words))}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Draws one straight line."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{kind}"/>'


def dot(x: float, y: float, radius: float, kind: str, about: str) -> str:
    """Draws one point. The pointer shows ``about``."""
    return f'<circle cx="{x}" cy="{y}" r="{radius}" class="{kind}"><title>{escape(printable(about))}</title></circle>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Draws one bar."""
    return f'<rect x="{x}" y="{y}" width="{max(1.0, round(width, 1))}" height="{height}" class="{kind}"/>'


def interval(scale: Scale, y: float, value: float, ends: tuple[float, float] | None, kind: str, about: str) -> str:
    """A value with its interval, along a row."""
    parts = []
    if ends is not None:
        low, high = scale.at(ends[0]), scale.at(ends[1])
        parts = [line(low, y, high, y, kind), line(low, y - 4, low, y + 4, kind), line(high, y - 4, high, y + 4, kind)]
    return "".join([*parts, dot(scale.at(value), y, 4, kind, about)])


def shortened(words: str, most: int) -> str:
    """Returns the beginning of a long text."""
    return words if len(words) <= most else words[: most - 1] + "…"


@dataclass(frozen=True, slots=True)
class Canvas:
    """Area of a plot. Its texts have the size of the page's texts if the page has the same width.

    Attributes:
        kind: class that shows it on a page of this width.
        width: width in pixels.
        labels: width of the column of names; 0: a name is above its row.
        row: height of a row.
    """

    kind: str
    width: int
    labels: int
    row: int

    def label(self, y: float, words: str) -> str:
        """Draws the name of the row whose text would be at ``y``."""
        if self.labels:
            return text(self.labels - 12, y, shortened(words, 46), anchor="end")
        return text(0, y - self.row + 24, shortened(words, 42))


WIDE = Canvas("wide", 1040, 330, 26)
NARROW = Canvas("slim", 370, 0, 42)
"""Canvas for a telephone of 400 px."""
