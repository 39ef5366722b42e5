"""What the plots of a report are drawn with: SVG inside the page, coloured by the page's own variables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from optim.cli_kit.output import printable

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
)


@dataclass(frozen=True, slots=True)
class Scale:
    """From values to places on the page.

    Attributes:
        low: the smallest value.
        high: the largest.
        start: where the smallest is drawn.
        end: where the largest is drawn.
        log: whether equal steps are equal factors.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where a value is drawn; what lies outside is drawn at the edge."""
        value = min(max(value, self.low), self.high)
        share = (
            math.log(value / self.low) / math.log(self.high / self.low)
            if self.log
            else (value - self.low) / (self.high - self.low)
        )
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> list[float]:
        """Round values to mark, at most about seven; every power of ten on a logarithmic scale."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            step = max(1, math.ceil((last - first) / 6))
            return [10.0**power for power in range(first, last + 1, step)]
        rough = (self.high - self.low) / 6
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
        first = math.ceil(self.low / step - 1e-9)
        return [round(step * (first + i), 10) for i in range(int((self.high - first * step) / step + 1e-9) + 1)]


def svg(width: int, height: int, title: str, parts: Sequence[str], *, kind: str) -> str:
    """A whole drawing; ``title`` says what it shows to who cannot see it, ``kind`` on which pages it is shown."""
    return (
        f'<svg class="plot {kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(printable(title))}">'
        + "".join(parts)
        + "</svg>"
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    """One line of text."""
    css = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{css}>{escape(printable(words))}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """One straight line."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" class="{kind}"/>'


def dot(x: float, y: float, radius: float, kind: str, about: str) -> str:
    """One point; ``about`` is shown where the pointer rests on it."""
    return f'<circle cx="{x}" cy="{y}" r="{radius}" class="{kind}"><title>{escape(printable(about))}</title></circle>'


def bar(x: float, y: float, width: float, height: float, kind: str) -> str:
    """One bar."""
    return f'<rect x="{x}" y="{y}" width="{max(1.0, round(width, 1))}" height="{height}" class="{kind}"/>'


def interval(scale: Scale, y: float, value: float, ends: tuple[float, float] | None, kind: str, about: str) -> str:
    """A value with its interval, along a row."""
    parts = []
    if ends is not None:
        low, high = scale.at(ends[0]), scale.at(ends[1])
        parts = [line(low, y, high, y, kind), line(low, y - 4, low, y + 4, kind), line(high, y - 4, high, y + 4, kind)]
    return "".join([*parts, dot(scale.at(value), y, 4, kind, about)])


def shortened(words: str, most: int) -> str:
    """The beginning of a long text."""
    return words if len(words) <= most else words[: most - 1] + "…"
