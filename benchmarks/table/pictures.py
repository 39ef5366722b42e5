"""Two pictures as SVG: bars of the models in README.md, and speed against drift, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import hypot, log10

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
            ours = row is not None and row.is_optim
            fill = (
                colours.broken if broken else colours.ours if ours else colours.base if row is None else colours.theirs
            )
            parts.append(text(LEFT - 8, top + 13, label, colours.ink if ours else colours.quiet, anchor="end"))
            if row is not None and row.ratio is None:
                parts.append(text(LEFT, top + 13, str(row.contender["error"]), colours.quiet))
                continue
            value = 1.0 if row is None else row.ratio or 1.0
            width = (WIDTH - LEFT - RIGHT) * value / longest
            parts.append(f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" fill="{fill}"/>')
            said = f"{one.milliseconds * value:.3g} ms"
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
        if row := one.of_optim(DEFAULT, target):
            lines.append((label, row, row.ratio is not None and row.drift > one.limit(DEFAULT)))
    return lines


def short(row: Row) -> str:
    """A peer in few words."""
    label = str(row.contender["label"])
    if row.contender["tool"] == "nncf":
        return f"{label} on {'onnxruntime' if row.contender['kind'] == 'ort' else 'OpenVINO'}"
    return f"{label}, {row.contender['setting']}" if row.contender["tool"] == "openvino" else label


PANEL = 430, 330
LEFT_EDGE, TOP_EDGE, ACROSS, DOWN = 62, 44, 340, 232
"""Size of a panel; where its axes begin, and how long they are."""
MOST, LEAST, FARTHEST = 2.0, 1e-5, 2.0
"""Ratio at the right, drift at the bottom and at the top; a point beyond stands at the edge, as an arrow."""
LETTER, LABEL, POINT = 6.2, 11, 5
"""Width of a bold letter and the space behind it, height of a line of labels, and how far a point reaches."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


def scatter(found: Sequence[Result], colours: Colours) -> str:
    """A panel for each model: drift upwards, latency to the right; optim has bold labels and large points."""
    columns = min(2, len(found))
    lines = -(-len(found) // columns)
    parts = []
    for number, one in enumerate(found):
        across, down = number % columns * PANEL[0], number // columns * PANEL[1]
        parts.append(f'<g transform="translate({across} {down})">{"".join(panel(one, colours))}</g>')
    return svg(columns * PANEL[0], lines * PANEL[1], parts, colours)


def panel(one: Result, colours: Colours) -> list[str]:
    """Axes, points, and labels."""
    raced = [row for row in one.rows if row.ratio is not None]
    parts = [text(LEFT_EDGE, 22, one.model.title, colours.ink, weight="600"), *axes(colours)]
    parts += [point(row, colours) for row in sorted(raced, key=lambda row: row.is_optim)]
    for row, box in labels(raced):
        (x, y), (to_x, to_y) = place(row), nearest(place(row), box)
        colour, weight = (colours.ours, "600") if row.is_optim else (colours.theirs, "400")
        parts.append(text(box[0], box[3] - 2, label(row), colour, size=9, weight=weight))
        if hypot(to_x - x, to_y - y) > LABEL:
            parts.append(line(x, y, to_x, to_y, colour, width=0.5))
    return parts


def nearest(at: tuple[float, float], box: Box) -> tuple[float, float]:
    """The place of a box that is nearest to a point."""
    left, top, right, bottom = box
    return min(max(at[0], left), right), min(max(at[1], top), bottom)


def axes(colours: Colours) -> list[str]:
    """Frame, grid, ticks and titles."""
    bottom, quiet, right = TOP_EDGE + DOWN, colours.quiet, LEFT_EDGE + ACROSS
    parts = [line(LEFT_EDGE, TOP_EDGE, LEFT_EDGE, bottom, quiet), line(LEFT_EDGE, bottom, right, bottom, quiet)]
    for tick in (0.5, 1.0, 1.5, 2.0):
        x = LEFT_EDGE + ACROSS * tick / MOST
        parts.append(line(x, TOP_EDGE, x, bottom, colours.broken))
        parts.append(text(x, bottom + 15, f"{tick:g}", quiet, anchor="middle", size=10))
    for tick in (LEAST, 1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        y = height_of(tick)
        parts.append(line(LEFT_EDGE, y, right, y, colours.broken))
        said = f"{tick:g}" if tick > LEAST else f"≤ {tick:g}"
        parts.append(text(LEFT_EDGE - 5, y + 4, said, quiet, anchor="end", size=10))
    under = "time of a run, ratio to onnxruntime's default"
    parts.append(text(LEFT_EDGE + ACROSS / 2, bottom + 31, under, quiet, anchor="middle", size=10))
    turned = f'transform="translate(14 {TOP_EDGE + DOWN / 2}) rotate(-90)" text-anchor="middle"'
    return [*parts, f'<text {turned} fill="{quiet}" font-size="10">drift of the worst sample</text>']


def height_of(drift: float) -> float:
    """Where a drift is on its axis."""
    share = log10(min(max(drift, LEAST), FARTHEST) / LEAST) / log10(FARTHEST / LEAST)
    return TOP_EDGE + DOWN * (1 - share)


def place(row: Row) -> tuple[float, float]:
    """Where a point stands."""
    return LEFT_EDGE + ACROSS * min(row.ratio or 1.0, MOST) / MOST, height_of(row.drift)


def point(row: Row, colours: Colours) -> str:
    """A circle with its name as a tooltip; an arrow where it is out of range."""
    (x, y), colour = place(row), colours.ours if row.is_optim else colours.theirs
    title = f"<title>{escape(row.name)}: {row.ratio:.2f}, drift {row.drift:.2g}</title>"
    if (row.ratio or 1.0) > MOST:
        return f'<path d="M{x - 7:.1f} {y - 5:.1f}l7 5l-7 5z" fill="{colour}">{title}</path>'
    if row.drift > FARTHEST:
        return f'<path d="M{x - 5:.1f} {y + 7:.1f}l5 -7l5 7z" fill="{colour}">{title}</path>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{5 if row.is_optim else 3.5}" fill="{colour}">{title}</circle>'


def label(row: Row) -> str:
    """A result in few words."""
    setting = str(row.contender["setting"]).replace(", target cpu", "").replace(", target auto", " auto")
    return f"optim {setting}" if row.is_optim else short(row)


def labels(raced: Sequence[Row]) -> list[tuple[Row, Box]]:
    """Rows that have a label, with its box: optim's, and peers that no other peer beats in both."""

    def beaten(row: Row) -> bool:
        others = [other for other in raced if not other.is_optim]
        return any((o.ratio or 1.0) < (row.ratio or 1.0) and o.drift <= row.drift for o in others)

    points = [(x - POINT, y - POINT, x + POINT, y + POINT) for x, y in map(place, raced)]
    boxes: list[tuple[Row, Box]] = []
    for row in raced:
        if row.is_optim or not beaten(row):
            taken = [*points, *(box for _, box in boxes)]
            boxes.append((row, free_box(place(row), LETTER * len(label(row)), taken)))
    return boxes


def free_box(at: tuple[float, float], wide: float, taken: Sequence[Box]) -> Box:
    """The nearest box for a label that overlaps none of those taken.

    Raises:
        ValueError: the panel is full.
    """
    right, bottom = PANEL[0] - 4, TOP_EDGE + DOWN
    lefts = [at[0] + 8, at[0] - 8 - wide, LEFT_EDGE + 4, right - wide]
    tops = [at[1] - LABEL / 2 + LABEL * step for step in range(-22, 23)]
    boxes = [(left, top, left + wide, top + LABEL) for left in lefts for top in tops]
    inside = [box for box in boxes if box[0] >= LEFT_EDGE and box[2] <= right and TOP_EDGE <= box[1] <= bottom - LABEL]
    free = [box for box in inside if not any(overlap(box, other) for other in taken)]
    if not free:
        raise ValueError(f"no place for a label of {wide:.0f} beside {len(taken)}")

    def distance(box: Box) -> float:
        aside = max(box[0] - at[0], at[0] - box[2], 0.0)
        return abs(box[1] + LABEL / 2 - at[1]) + aside / 2

    return min(free, key=distance)


def overlap(one: Box, other: Box) -> bool:
    """Whether two boxes share more than an edge."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


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
