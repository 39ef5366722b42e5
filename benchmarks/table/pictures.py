"""Two pictures as SVG: bars of the models in README.md, and speed against drift, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import log10

from plan import DEFAULT
from rows import Result, Row

WIDTH = 860


@dataclass(frozen=True)
class Colours:
    """Of one theme."""

    paper: str
    ink: str
    quiet: str
    ours: str
    theirs: str
    base: str
    broken: str


LIGHT = Colours("#ffffff", "#1f2328", "#59636e", "#1a7f37", "#0969da", "#8c959f", "#d0d7de")
DARK = Colours("#0d1117", "#e6edf3", "#9198a1", "#3fb950", "#4493f8", "#7d8590", "#3d444d")
THEMES = {"light": LIGHT, "dark": DARK}

BAR, GAP, LEFT, HEAD = 18, 6, 250, 62
RIGHT = 250
"""Room for the words behind a bar."""


def bars(found: Sequence[Result], colours: Colours) -> str:
    """One group for each model: onnxruntime, the best peer within the budget, the fastest that breaks it, optim."""
    groups = [(one, bars_of(one)) for one in found]
    longest = max([1.0, *(row.ratio or 0.0 for _, lines in groups for _, row, _ in lines if row is not None)])
    parts, top = [], HEAD
    for one, lines in groups:
        parts.append(text(12, top + 14, one.model.title, colours.ink, weight="600"))
        for label, row, broken in lines:
            top += BAR + GAP
            value = 1.0 if row is None else row.ratio or 1.0
            milliseconds = one.milliseconds if row is None else row.milliseconds
            ours = row is not None and row.is_optim
            fill = (
                colours.broken if broken else colours.ours if ours else colours.base if row is None else colours.theirs
            )
            width = (WIDTH - LEFT - RIGHT) * value / longest
            parts.append(text(LEFT - 8, top + 13, label, colours.ink if ours else colours.quiet, anchor="end"))
            parts.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" fill="{fill}"/>')
            said = f"{milliseconds:.3g} ms"
            if row is not None:
                said += f", drift {row.drift:.2g}" + (": beyond the limit" if broken else "")
            parts.append(text(LEFT + width + 6, top + 13, said, colours.quiet))
        top += BAR + 3 * GAP
    title = text(12, 22, "Time of one run, shorter is better", colours.ink, size=15, weight="600")
    under = (
        f"Accuracy limit: drift {DEFAULT} on samples that no tool saw. Grey: it breaks the limit, or is the original."
    )
    return svg(WIDTH, top + 8, [title, text(12, 42, under, colours.quiet), *parts], colours)


def bars_of(one: Result) -> list[tuple[str, Row | None, bool]]:
    """Label, row (None: the original) and whether it breaks the limit."""
    lines: list[tuple[str, Row | None, bool]] = [("onnxruntime", None, False)]
    best, fastest = one.best_peer(DEFAULT), one.fastest_peer()
    if best is not None:
        lines.append((short(best), best, False))
    if (
        fastest is not None
        and fastest.drift > one.limit(DEFAULT)
        and (fastest.ratio or 1.0) < ((best and best.ratio) or 1.0)
    ):
        lines.append((short(fastest), fastest, True))
    for target, label in (("cpu", "optim"), ("auto", "optim, --target auto")):
        row = one.of_optim(DEFAULT, target)
        if row is not None and row.ratio is not None:
            lines.append((label, row, row.drift > one.limit(DEFAULT)))
    return lines


def short(row: Row) -> str:
    """A peer in few words."""
    label = str(row.contender["label"])
    if row.contender["tool"] == "nncf":
        return f"{label} on {'onnxruntime' if row.contender['kind'] == 'ort' else 'OpenVINO'}"
    return f"{label}, {row.contender['setting']}" if row.contender["tool"] == "openvino" else label


PANEL, PLOT = (430, 330), (62, 44, 300, 232)
"""Size of a panel, and its axes: left, top, width, height."""
MOST, LEAST, FARTHEST = 2.0, 1e-5, 2.0
"""Ratio at the right, drift at the bottom and at the top; what is beyond stands at the edge with an arrow."""


def scatter(found: Sequence[Result], colours: Colours) -> str:
    """A panel for each model: drift upwards, latency to the right; labels are numbers, listed beside the axes."""
    columns = min(2, len(found))
    lines = -(-len(found) // columns)
    parts = []
    for number, one in enumerate(found):
        across, down = number % columns * PANEL[0], number // columns * PANEL[1]
        parts.append(f'<g transform="translate({across} {down})">{"".join(panel(one, colours))}</g>')
    return svg(columns * PANEL[0], lines * PANEL[1], parts, colours)


def panel(one: Result, colours: Colours) -> list[str]:
    """Axes, points, and a list of the points' names."""
    left, top, width, height = PLOT
    decades = log10(FARTHEST / LEAST)

    def place(row: Row) -> tuple[float, float, bool]:
        ratio, drift = row.ratio or 1.0, row.drift
        out = ratio > MOST or drift > FARTHEST
        x = left + width * min(ratio, MOST) / MOST
        y = top + height * (1 - log10(min(max(drift, LEAST), FARTHEST) / LEAST) / decades)
        return x, y, out

    parts = [text(left, 22, one.model.title, colours.ink, weight="600")]
    parts.append(
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="{colours.broken}"/>'
    )
    for tick in (0.5, 1.0, 1.5, 2.0):
        x = left + width * tick / MOST
        parts += [
            line(x, top, x, top + height, colours.broken),
            text(x, top + height + 15, f"{tick:g}", colours.quiet, anchor="middle", size=10),
        ]
    for tick in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        y = top + height * (1 - log10(tick / LEAST) / decades)
        parts += [
            line(left, y, left + width, y, colours.broken),
            text(left - 5, y + 4, f"{tick:g}", colours.quiet, anchor="end", size=10),
        ]
    parts.append(
        text(
            left + width / 2,
            top + height + 31,
            "time of a run, ratio to onnxruntime's default",
            colours.quiet,
            anchor="middle",
            size=10,
        )
    )
    parts.append(
        f'<text transform="translate(14 {top + height / 2}) rotate(-90)" fill="{colours.quiet}" font-size="10" '
        'text-anchor="middle">drift, worst sample</text>'
    )
    raced = [row for row in one.rows if row.ratio is not None]
    taken: list[tuple[float, float, float]] = []
    for row in sorted(raced, key=lambda row: row.is_optim):
        x, y, out = place(row)
        colour = colours.ours if row.is_optim else colours.theirs
        mark = (
            f'<path d="M{x - 5:.1f} {y:.1f}l5 -6l5 6z" fill="none" stroke="{colour}"/>'
            if out
            else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{5 if row.is_optim else 3.5}" fill="{colour}"/>'
        )
        parts.append(f"{mark[:-2]}><title>{escape(row.name)}</title></{'path' if out else 'circle'}>")
    for row in named(raced):
        x, y, _ = place(row)
        colour = colours.ours if row.is_optim else colours.theirs
        said = (
            "optim " + str(row.contender["setting"]).replace(", target cpu", "").replace(", target", "")
            if row.is_optim
            else short(row)
        )
        spot = free_spot(taken, (x, y), 5.4 * len(said), (left, top, left + width, top + height))
        if spot is not None:
            at, down = spot
            parts.append(text(at, down, said, colour, size=9, weight="600" if row.is_optim else "400"))
            parts.append(line(x, y, at, down - 3, colour, width=0.5) if abs(down - y) > 14 else "")
    return parts


def named(raced: Sequence[Row]) -> list[Row]:
    """Optim's, and the peers that no other row beats in both; others have their name as a tooltip."""

    def beaten(row: Row) -> bool:
        return any((o.ratio or 9) < (row.ratio or 9) and o.drift <= row.drift for o in raced if not o.is_optim)

    return [row for row in raced if row.is_optim or not beaten(row)]


def free_spot(
    taken: list[tuple[float, float, float]],
    at_point: tuple[float, float],
    wide: float,
    box: tuple[float, float, float, float],
) -> tuple[float, float] | None:
    """Where a label of this width overlaps none of those that are there; None: nowhere near."""
    (x, y), (left, top, right, bottom) = at_point, box
    for step in range(24):
        down = y + 4 + (1 if step % 2 else -1) * 11 * ((step + 1) // 2)
        for at in (x + 8, x - 8 - wide):
            inside = left <= at and at + wide <= right + 66 and top + 8 <= down <= bottom - 2
            if inside and all(abs(down - d) >= 10.5 or at + wide < a or a + w < at for a, d, w in taken):
                taken.append((at, down, wide))
                return at, down
    return None


def text(
    x: float, y: float, said: str, fill: str, *, size: int = 12, anchor: str = "start", weight: str = "400"
) -> str:
    """A line of words."""
    style = f'fill="{fill}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {style}>{escape(said)}</text>'


def line(x: float, y: float, to_x: float, to_y: float, stroke: str, width: float = 1) -> str:
    """A thin line."""
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{stroke}" stroke-width="{width}"/>'


def svg(width: float, height: float, parts: Sequence[str], colours: Colours) -> str:
    """The file."""
    size = f'viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
    font = 'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"'
    paper = f'<rect width="100%" height="100%" fill="{colours.paper}"/>'
    return "\n".join([f"{head} {font}>", paper, *(part for part in parts if part), "</svg>\n"])
