"""Which elements of an output count: all but padding, infinities, NaN and sentinels.

Outputs may have millions of elements, and mostly all count. So ``counted`` has only the axes that a mask has: it is
broadcastable to the output, and one True where everything counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Counted = NDArray[np.bool_]
Numbers = NDArray[np.float64]


def positions(shape: Sequence[int], valid: Counted | None) -> Counted:
    """Returns what counts at first, with as many axes as the output.

    Args:
        shape: of the output.
        valid: broadcastable to it; None: all.
    """
    given = np.ones((), bool) if valid is None else np.asarray(valid, bool)
    return given.reshape((1,) * (len(shape) - given.ndim) + given.shape)


def only(counted: Counted, values: Numbers) -> Numbers:
    """Returns the values, and zero where an element does not count."""
    return values if counted.all() else np.where(counted, values, 0.0)


def shown(counted: Counted, values: Numbers) -> Numbers:
    """Returns the values that count, in one dimension."""
    return values.ravel() if counted.all() else values[np.broadcast_to(counted, values.shape)]


def count(counted: Counted, shape: Sequence[int]) -> int:
    """Returns how many elements count."""
    return int(counts_of(counted, shape, tuple(range(len(shape)))))


def counts_of(counted: Counted, shape: Sequence[int], rest: tuple[int, ...]) -> NDArray[np.int_]:
    """Returns how many elements count in each slice, which spans the axes ``rest``."""
    wide = math.prod(shape[axis] for axis in rest if counted.shape[axis] == 1)
    kept = tuple(size for axis, size in enumerate(shape) if axis not in rest)
    return np.broadcast_to(np.asarray(counted.sum(axis=rest) * wide), kept)
