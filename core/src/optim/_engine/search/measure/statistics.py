"""Statistics of paired timings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optim._engine.search.state import Ratio

_RESAMPLES = 500
"""Resamples of the bootstrap: more make the ends of an interval steadier, and each round of a race longer."""


def paired_ratio(candidate: Sequence[float], base: Sequence[float], seed: int = 0) -> Ratio:
    """Median of the ratios round by round, with a percentile bootstrap interval (Efron 1979, 500 resamples).

    Args:
        candidate: a time a round.
        base: the times of the base in the same rounds; same unit, same length, at least one.
        seed: of the resampling.
    """
    ratios = np.asarray(candidate, float) / np.asarray(base, float)
    low, high = median_interval(ratios, seed)
    return Ratio(float(np.median(ratios)), low, high, len(ratios))


def joined_ratio(first: Ratio, second: Ratio) -> Ratio:
    """The ratio over two races in processes of their own: their geometric mean, and an interval that covers both.

    A bootstrap over rounds knows nothing of what differs between processes (memory layout, clock frequency); two
    intervals together do.
    """
    return Ratio(
        float(np.sqrt(first.value * second.value)),
        min(first.low, second.low),
        max(first.high, second.high),
        first.rounds + second.rounds,
    )


def median_interval(values: NDArray[np.float64], seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the median."""
    picks = np.random.default_rng(seed).integers(0, len(values), (_RESAMPLES, len(values)))
    low, high = np.percentile(np.median(values[picks], axis=1), [2.5, 97.5])
    return float(low), float(high)
