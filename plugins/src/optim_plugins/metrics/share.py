"""What metrics make of their counts that are a share of a whole."""

from __future__ import annotations

from optim.arrays import Array


def share(sums: Array) -> float:
    """The first of two sums as a share of the second; NaN where that is 0."""
    return float(sums[0] / sums[1]) if sums[1] else float("nan")
