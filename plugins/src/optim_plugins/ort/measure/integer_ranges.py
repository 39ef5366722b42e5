"""From what a tensor's values were on the samples to the range its integers cover.

Clipping a few far values makes the steps for all others smaller. ``minmax`` clips none of the samples'; ``foreseen``
leaves room for what a further sample is expected to reach beyond them; ``percentile`` clips a fixed share;
``mse`` searches for the range of least squared error, clipping and rounding together, behind the activation that
reads the tensor where one does; ``entropy`` for the one that keeps the most of the distribution (S. Migacz, "8-bit
Inference with TensorRT", 2017, here for ranges that need not be symmetric).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optim.drift import foresee

Reals = NDArray[np.float64]
Activation = Callable[[Reals], Reals]
"""Element by element."""

BINS = 2048
_AT_A_TIME = 1 << 16
"""Values that are counted: what is made of them stays in the processor's cache."""

_MOST_ROOM = 2.0
"""Times what the samples showed: steps twice as large lose a bit, and few samples may foresee anything."""

_SHARES = np.linspace(0.2, 1.0, 65)
"""Of the whole range, tried by ``mse`` and ``entropy``."""

_ENDS = np.linspace(0, 1, 65)
"""Of one end of it, tried by ``mse`` while the other stays."""


@dataclass(frozen=True, slots=True)
class Range:
    """Least and greatest value; 0 lies between, so that padding and ReLU are exact."""

    low: float
    high: float

    @classmethod
    def around(cls, low: float, high: float) -> Range:
        """The smallest range that holds both and 0."""
        return cls(float(np.minimum(low, 0.0)), float(np.maximum(high, 0.0)))

    @property
    def is_finite(self) -> bool:
        """Whether the samples had neither NaN nor infinity there."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often values fell into equal parts of a range.

    Attributes:
        whole: the range.
        counts: int64 [BINS].
    """

    whole: Range
    counts: NDArray[np.int64]

    def with_values(self, values: NDArray[np.float32]) -> Histogram:
        """With these values counted too; all are float32 and lie within the range, which is not empty.

        At the edge of two parts a value may count in either: ``numpy.histogram`` tells, and takes 2.5 times as long.
        """
        counts, bins, low = self.counts.copy(), len(self.counts), np.float32(self.whole.low)
        with np.errstate(over="ignore"):
            per_unit = np.float32(bins / (self.whole.high - self.whole.low))
        for begin in range(0, len(values), _AT_A_TIME):
            with np.errstate(over="ignore", invalid="ignore"):
                places = (values[begin : begin + _AT_A_TIME] - low) * per_unit
            # not clip: if the range is so small that per_unit is infinite, the low end becomes NaN, and counts first
            counts += np.bincount(np.fmin(np.fmax(places, 0), bins - 1).astype(np.int32), minlength=bins)
        return Histogram(self.whole, counts)

    @property
    def centers(self) -> NDArray[np.float64]:
        """The middle of each part, [BINS]."""
        edges = np.linspace(self.whole.low, self.whole.high, len(self.counts) + 1)
        return (edges[:-1] + edges[1:]) / 2


def whole_range(seen: Sequence[Range]) -> Range:
    """The range of all samples, not finite where one of them is not: numpy's least and greatest keep NaN."""
    return Range(float(np.min([one.low for one in seen])), float(np.max([one.high for one in seen])))


def average_range(seen: Sequence[Range]) -> Range:
    """From the mean of the samples' least values to that of their greatest; all finite."""
    return Range(float(np.mean([one.low for one in seen])), float(np.mean([one.high for one in seen])))


def foreseen_range(seen: Sequence[Range]) -> Range:
    """The range that a further sample's values stay within, with 99 % probability, by the spread of the samples' ends.

    Args:
        seen: the range of each sample; all finite.
    """
    whole = whole_range(seen)
    least, greatest = -foresee([-one.low for one in seen]), foresee([one.high for one in seen])
    return Range(max(least, _MOST_ROOM * whole.low), min(greatest, _MOST_ROOM * whole.high))


def choose_range(
    histogram: Histogram, method: str, *, percentile: float, levels: int, activation: Activation | None = None
) -> Range:
    """The range that a method finds best.

    Args:
        histogram: of the values.
        method: ``percentile``, ``mse`` or ``entropy``.
        percentile: share of the values, in percent, that ``percentile`` covers.
        levels: how many integers there are.
        activation: what reads the values, and nothing else does; ``mse`` looks at the errors behind it.
    """
    if not histogram.counts.any():
        return histogram.whole
    if method == "percentile":
        return _percentile(histogram, percentile)
    whole = histogram.whole
    tried = [Range(whole.low * float(share), whole.high * float(share)) for share in _SHARES]
    if method == "entropy":
        return min(reversed(tried), key=lambda one: _divergence(histogram, one, levels))
    error = _SquaredError(histogram, levels, activation)
    best = min(reversed(tried), key=error)
    for _ in range(2 if activation else 0):
        best = min((Range(whole.low * float(share), best.high) for share in reversed(_ENDS)), key=error)
        best = min((Range(best.low, whole.high * float(share)) for share in reversed(_ENDS)), key=error)
    return best


def _percentile(histogram: Histogram, percentile: float) -> Range:
    share = np.cumsum(histogram.counts) / histogram.counts.sum()
    outside = (1 - percentile / 100) / 2
    edges = np.linspace(histogram.whole.low, histogram.whole.high, len(share) + 1)
    low = edges[int(np.searchsorted(share, outside, side="right"))]
    high = edges[min(int(np.searchsorted(share, 1 - outside)) + 1, len(share))]
    return Range.around(float(low), float(high))


class _SquaredError:
    """What a range costs a tensor: the sum of squared errors by clipping and by rounding, behind an activation."""

    def __init__(self, histogram: Histogram, levels: int, activation: Activation | None) -> None:
        self._counts, self._levels = histogram.counts, levels
        self._centers = histogram.centers
        self._activation = activation or (lambda values: values)
        self._behind = self._activation(self._centers)
        self._slopes = np.square(np.gradient(self._behind, self._centers))

    def __call__(self, one: Range) -> float:
        """Unit: the square of what comes out behind the activation."""
        centers, step = self._centers, max((one.high - one.low) / (self._levels - 1), 1e-30)
        inside = (centers >= one.low) & (centers <= one.high)
        clipped = self._activation(np.clip(centers, one.low, one.high)) - self._behind
        rounded = step * step / 12 * (self._slopes * self._counts)[inside].sum()
        return float((np.square(clipped) * self._counts).sum() + rounded)


def _divergence(histogram: Histogram, one: Range, levels: int) -> float:
    """Kullback-Leibler divergence of the values from what integers make of them: equal within each integer."""
    centers, counts = histogram.centers, _without_zeros(histogram)
    inside = (centers >= one.low) & (centers <= one.high)
    seen = counts[inside].astype(np.float64)
    if not len(seen):
        return float("inf")
    first, last = int(np.argmax(inside)), len(inside) - int(np.argmax(inside[::-1]))
    seen[0] += counts[:first].sum()
    seen[-1] += counts[last:].sum()
    place = np.minimum((np.arange(len(seen)) * levels) // len(seen), levels - 1)
    kept, filled = counts[inside], counts[inside] > 0
    sums = np.bincount(place, weights=kept, minlength=levels)
    parts = np.bincount(place, weights=filled, minlength=levels)
    spread = np.where(filled, (sums / np.maximum(parts, 1))[place], 0.0)
    p, q = seen / seen.sum(), (spread + 1e-9) / (spread.sum() + 1e-9 * len(spread))
    used = p > 0
    return float((p[used] * np.log(p[used] / q[used])).sum())


def _without_zeros(histogram: Histogram) -> NDArray[np.int64]:
    """Counts without the peak that ReLU leaves at 0, which is exact whatever the range."""
    counts = histogram.counts.copy()
    peak = int(np.abs(histogram.centers).argmin())
    beside = counts[max(0, peak - 1) : peak + 2].min()
    counts[peak] = min(counts[peak], beside)
    return counts
