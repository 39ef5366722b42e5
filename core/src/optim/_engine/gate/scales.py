"""Outputs that mix scales: slices along an axis that differ by orders of magnitude, such as boxes beside scores.

One relative distance over all of such an output sees its large slices only: the coordinates of a detector are hundreds,
its scores below one, and boxes go lost while the drift of the whole is small. Slices are put into groups, split where
neighbours in scale are a factor of 100 apart; each group has a drift of its own, and the worst one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_APART = 100.0
"""Neighbours in scale that differ by more are of different kinds. Channels of one kind differ by less in a row: of
hidden states that have outliers by tens."""

_NEGLIGIBLE = 1e-6
"""Of the largest scale: what is smaller is rounding of it, as classes that a detector never sees."""

_LEAST_SHARE = 0.1
"""Of an axis: fewer slices are no kind of their own but channels that happen to be next to dead."""

_LEAST_NUMBERS = 32
"""In a slice: of fewer the scale is chance, as of ten probabilities of one picture."""

_QUANTITY = 1.0
"""Scale of the largest slices: where they are smaller, all are probabilities or the like, and what is far smaller is
a class that was not seen, not another kind."""

_FLOOR = 1e-6
"""Smaller numbers say nothing, see the floor of the drift itself."""

_MOST_SLICES = 4096
"""An axis with more is one of positions or words: their scales are no kinds."""


@dataclass(frozen=True, slots=True)
class Group:
    """Slices of about one scale.

    Attributes:
        axis: along which they lie.
        slices: their places on it, ascending.
        scale: root mean square of the reference in them.
        relative_l2: of the other output in them.
    """

    axis: int
    slices: tuple[int, ...]
    scale: float
    relative_l2: float

    def text(self, largest: float) -> str:
        """Returns where that is, in a few words; ``largest`` is the scale of the output's largest slices."""
        first, last = self.slices[0], self.slices[-1]
        places = f"{first}" if first == last else f"{first} to {last}"
        return f"slices {places} of axis {self.axis}, of magnitude {self.scale:.2g} beside {largest:.2g}"


def worst_group(reference: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[Group, float] | None:
    """The group of slices with the largest drift, over all axes, and the largest scale beside it.

    Args:
        reference: finite; zero where a position does not count.
        other: of the same shape, zero there too.

    Returns:
        None where the slices of every axis are of about one scale.
    """
    found: list[tuple[Group, float]] = []
    for axis, count in enumerate(reference.shape):
        if not 2 <= count <= _MOST_SLICES or reference.size < _LEAST_NUMBERS * count:
            continue
        rest = tuple(place for place in range(reference.ndim) if place != axis)
        energy = np.square(reference).sum(axis=rest)
        scales = np.sqrt(energy * (count / reference.size))
        parts = _parts(scales) if scales.max() >= _QUANTITY else ()
        if len(parts) < 2:
            continue
        noise = np.square(other - reference).sum(axis=rest)
        for part in (part for part in parts if part.size >= _LEAST_SHARE * count):
            drift = float(np.sqrt(noise[part].sum() / energy[part].sum()))
            scale = float(np.sqrt(np.mean(np.square(scales[part]))))
            places = tuple(sorted(int(place) for place in part))
            found.append((Group(axis, places, scale, drift), float(scales.max())))
    return max(found, key=lambda one: one[0].relative_l2, default=None)


def _parts(scales: NDArray[np.float64]) -> Sequence[NDArray[np.intp]]:
    """Places of slices by scale, split where the next one is far larger; what is negligible is left out."""
    order = np.argsort(scales, kind="stable")
    order = order[scales[order] > max(_FLOOR, _NEGLIGIBLE * float(scales.max()))]
    if order.size < 2:
        return ()
    jumps = np.flatnonzero(scales[order[1:]] > _APART * scales[order[:-1]]) + 1
    return np.split(order, jumps) if jumps.size else ()
