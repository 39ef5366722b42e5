"""A sensitivity, and one as SVG: the costliest nodes as bars, and drift against how many are left in float."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from optim.cli_kit import printable
from optim.laboratory import Sensitivity
from optim_plugins.drawing import Scale

_BARS = 30
_ROW, _LABEL, _BAR, _GAP, _CURVE = 18, 300, 300, 90, 380
_TOP, _BOTTOM = 62, 46
_INK, _FAINT, _FILL, _OVER = "#1f2933", "#d3dae2", "#3b6fb5", "#b5403b"
_LONGEST = 44


@dataclass(frozen=True, slots=True)
class MeasuredPass:
    """What was found, of which pass with which options, on which feeds."""

    pass_name: str
    options: dict[str, object]
    found: Sensitivity
    origin: str
    available: int


def draw(found: MeasuredPass, model: str) -> str:
    """The plot.

    Args:
        found: what was measured.
        model: what to call the model.
    """
    rows = min(_BARS, len(found.found.nodes))
    height = _TOP + max(rows * _ROW, 220) + _BOTTOM
    width = _LABEL + _BAR + _GAP + _CURVE + 30
    title = f"{model} with {found.pass_name}: drift {_text(found.found.whole)} in all"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="{_INK}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="12" y="24" font-size="15" font-weight="bold">{escape(printable(title))}</text>',
        *_bars(found),
        *_curve(found, _LABEL + _BAR + _GAP, height),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _bars(found: MeasuredPass) -> list[str]:
    nodes = found.found.nodes[:_BARS]
    longest = max((node.drift for node in nodes if math.isfinite(node.drift)), default=0.0) or 1.0
    parts = [f'<text x="{_LABEL}" y="{_TOP - 12}">drift with this node alone converted</text>']
    for place, node in enumerate(nodes):
        y = _TOP + place * _ROW
        over = not math.isfinite(node.drift)
        length = _BAR if over else max(1.0, _BAR * node.drift / longest)
        fill = _OVER if over else _FILL
        label = node.names[0] if len(node.names) == 1 else f"{node.names[0]} and {len(node.names) - 1} after it"
        parts += [
            f'<text x="{_LABEL - 8}" y="{y + 12}" text-anchor="end">{escape(_short(printable(label)))}</text>',
            f'<rect x="{_LABEL}" y="{y + 2}" width="{length:.1f}" height="{_ROW - 5}" fill="{fill}"/>',
            f'<text x="{_LABEL + length + 5:.1f}" y="{y + 12}" font-size="11">{_text(node.drift)}</text>',
        ]
    return parts


def _curve(found: MeasuredPass, left: int, height: int) -> list[str]:
    points = [(count, drift) for count, drift in found.found.curve if math.isfinite(drift)]
    bottom, right = height - _BOTTOM, left + _CURVE
    parts = [
        f'<text x="{left}" y="{_TOP - 12}">drift against nodes left in float, the costliest first</text>',
        f'<path d="M{left} {_TOP} V{bottom} H{right}" fill="none" stroke="{_INK}"/>',
    ]
    if not points:
        return [*parts, f'<text x="{left + 10}" y="{_TOP + 20}">every set overflows</text>']
    most = max(count for count, _ in points) or 1
    highest = max(drift for _, drift in points) or 1.0

    def at(count: float, drift: float) -> str:
        return f"{left + _CURVE * count / most:.1f} {bottom - (bottom - _TOP - 8) * drift / highest:.1f}"

    for drift in Scale(0, highest, 0, 1).ticks():
        y = float(at(0, drift).split()[1])
        parts += [f'<path d="M{left} {y} H{right}" stroke="{_FAINT}"/>'] if drift else []
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end" font-size="11">{drift:.2g}</text>')
    for count in Scale(0, most, 0, 1).ticks():
        if count == int(count):
            x = at(count, 0).split()[0]
            parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle" font-size="11">{count:.0f}</text>')
    path = "M" + " L".join(at(count, drift) for count, drift in points)
    dots = [f'<circle cx="{x}" cy="{y}" r="2.5" fill="{_FILL}"/>' for x, y in (at(*p).split() for p in points)]
    parts += [f'<path d="{path}" fill="none" stroke="{_FILL}" stroke-width="2"/>', *dots]
    parts.append(f'<text x="{(left + right) / 2}" y="{bottom + 34}" text-anchor="middle">nodes left in float</text>')
    return parts


def _short(label: str) -> str:
    """The end of a long name: exporters put the path first."""
    return label if len(label) <= _LONGEST else "..." + label[3 - _LONGEST :]


def _text(drift: float) -> str:
    return f"{drift:.2g}" if math.isfinite(drift) else "overflows"
