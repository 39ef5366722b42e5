"""A few nodes of a graph as boxes, from top to bottom, with an arrow for every value between them.

Layers by the longest way from the top, boxes of a layer ordered so that few arrows cross (the barycentre of what they
are joined with, Sugiyama, Tagawa and Toda, 1981); an arrow over several layers passes between their boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from optim.cli_kit import printable
from optim_plugins.drawing import drawing, shortened, text

_WIDTH, _HEIGHT, _GAP, _BETWEEN, _PASS = 200, 40, 18, 30, 14
_LETTERS = 29
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Box:
    """A node.

    Attributes:
        title: its operator.
        name: its name.
        note: what is said of it below its name; empty: nothing.
        kind: the class that colours it.
        reads: values that it reads.
        makes: values that it makes.
    """

    title: str
    name: str
    note: str
    kind: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Place:
    """A box, or where an arrow passes a layer."""

    layer: int
    box: Box | None
    above: list[_Place] = field(default_factory=list)
    below: list[_Place] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> float:
        return _WIDTH if self.box else _PASS

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def graph_drawing(boxes: Sequence[Box], title: str) -> str:
    """The drawing; nothing is in it without a box.

    Args:
        boxes: in an order in which every value is made before it is read.
        title: what it shows, to who cannot see it.
    """
    layers = _layers(boxes)
    for sweep in range(_SWEEPS):
        _order(layers, down=sweep % 2 == 0)
    width = max(sum(place.width + _GAP for place in layer) for layer in [*layers, []])
    for layer in layers:
        x = (width - sum(place.width + _GAP for place in layer)) / 2 + _GAP / 2
        for place in layer:
            place.x, x = x, x + place.width + _GAP
    parts = [_arrow(place, below) for layer in layers for place in layer for below in place.below]
    parts += [_box(place, place.box) for layer in layers for place in layer if place.box]
    drawn = drawing(round(width), len(layers) * (_HEIGHT + _BETWEEN) - _BETWEEN + 4, title, parts, kind="graph")
    return drawn.replace("<svg", f'<svg style="width: {round(width)}px"', 1)  # as large as its texts are to be


def _layers(boxes: Sequence[Box]) -> list[list[_Place]]:
    """Boxes by layer, joined with those that they read of; long edges have a place in each layer that they pass."""
    maker: dict[str, _Place] = {}
    places = []
    for box in boxes:
        above = list(dict.fromkeys(maker[name] for name in box.reads if name in maker))
        place = _Place(1 + max((one.layer for one in above), default=-1), box, above)
        maker.update(dict.fromkeys(box.makes, place))
        places.append(place)
    readers: dict[_Place, list[int]] = {}
    for place in places:
        for one in place.above:
            readers.setdefault(one, []).append(place.layer)
    for place in places:  # what nothing else holds up goes down to what reads it
        if not place.above and place in readers:
            place.layer = min(readers[place]) - 1
    layers: list[list[_Place]] = [[] for _ in range(1 + max((place.layer for place in places), default=0))]
    for place in places:
        layers[place.layer].append(place)
    for place in places:
        place.above = [_through(one, place, layers) for one in place.above]
    return layers


def _through(above: _Place, place: _Place, layers: Sequence[list[_Place]]) -> _Place:
    """What comes right above a place on the way from one that may be further up."""
    for layer in range(above.layer + 1, place.layer):
        known = next((one for one in above.below if one.box is None), None)
        passing = known or _Place(layer, None, [above])
        if known is None:
            layers[layer].append(passing)
            above.below.append(passing)
        above = passing
    above.below.append(place)
    return above


def _order(layers: Sequence[list[_Place]], *, down: bool) -> None:
    for layer in layers if down else reversed(layers):
        ranks = {id(place): rank for one in layers for rank, place in enumerate(one)}
        layer.sort(key=lambda place: _barycentre(place.above if down else place.below, ranks, ranks[id(place)]))


def _barycentre(joined: Sequence[_Place], ranks: Mapping[int, int], own: int) -> float:
    return sum(ranks[id(one)] for one in joined) / len(joined) if joined else float(own)


def _top(place: _Place) -> float:
    return 2.0 + place.layer * (_HEIGHT + _BETWEEN)


def _arrow(above: _Place, below: _Place) -> str:
    """From the foot of one to the head of the other; through the layer where it only passes."""
    x1, y1, x2, y2 = above.middle, _top(above) + _HEIGHT, below.middle, _top(below)
    passed = "" if above.box else f"M{x1:.1f} {_top(above):.1f} V{y1:.1f} "
    bend = (y2 - y1) / 2
    curve = f"M{x1:.1f} {y1:.1f} C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}"
    head = f" M{x2 - 3:.1f} {y2 - 6:.1f} L{x2:.1f} {y2:.1f} L{x2 + 3:.1f} {y2 - 6:.1f}" if below.box else ""
    return f'<path d="{passed}{curve}{head}" class="edge"/>'


def _box(place: _Place, box: Box) -> str:
    y = _top(place)
    about = escape(printable(f"{box.title} {box.name}\nreads {', '.join(box.reads)}\nmakes {', '.join(box.makes)}"))
    rect = f'<rect x="{place.x:.1f}" y="{y:.1f}" width="{_WIDTH}" height="{_HEIGHT}" rx="6" class="box {box.kind}"/>'
    words = [text(round(place.x + 8, 1), y + 16, shortened(box.title, _LETTERS - len(box.note)), kind="strong")]
    if box.note:
        words.append(text(round(place.x + _WIDTH - 8, 1), y + 16, box.note, anchor="end", kind="dim"))
    words.append(text(round(place.x + 8, 1), y + 32, _end(box.name), kind="dim"))
    return f"<g><title>{about}</title>{rect}{''.join(words)}</g>"


def _end(name: str) -> str:
    """The end of a long name: exporters put the path first."""
    return name if len(name) <= _LETTERS else "…" + name[1 - _LETTERS :]
