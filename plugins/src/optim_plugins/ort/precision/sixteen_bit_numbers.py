"""Numbers in 16 bits: what a type can hold, and weights rounded to it.

float16 ends at 65504 and has nothing between 0 and 6e-8; below 6e-5 it loses digits. bfloat16 has the range of float32
and 8 bits of precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_BLOCK = 1 << 22
_MASKED = -1e5
_ENDLESS = 1e30
_BFLOAT16_LARGEST = (2 - 2.0**-7) * 2.0**127
_MOST_ERROR = 2.0**-9
"""Relative error of a rounded weight that is more than rounding: float16 gives 2e-4."""


class Narrow(StrEnum):
    """A floating-point type of 16 bits."""

    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"

    @property
    def onnx(self) -> ir.DataType:
        """As onnx-ir has it."""
        return ir.DataType.FLOAT16 if self is Narrow.FLOAT16 else ir.DataType.BFLOAT16

    @property
    def numpy(self) -> np.dtype[Any]:
        """As numpy has it."""
        return np.dtype(np.float16) if self is Narrow.FLOAT16 else np.dtype(ml_dtypes.bfloat16)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return 65504.0 if self is Narrow.FLOAT16 else _BFLOAT16_LARGEST

    @property
    def smallest(self) -> float:
        """The smallest number above zero."""
        return 2.0**-24 if self is Narrow.FLOAT16 else 2.0**-133

    @property
    def bound(self) -> float:
        """What a number beyond the range becomes: half of the largest, so that adding to it does not overflow."""
        return self.largest / 2


@dataclass(frozen=True, slots=True)
class Fit:
    """How a constant fits into a narrow type.

    Attributes:
        symbolic: numbers beyond the range that :func:`_is_symbolic` lets be anything large.
        beyond: the other numbers beyond the range.
        relative_error: distance of the rounded constant, what lies beyond the range left out.
    """

    symbolic: int
    beyond: int
    relative_error: float

    @property
    def is_close(self) -> bool:
        """Whether rounding loses no more than the precision of the type."""
        return not self.beyond and self.relative_error <= _MOST_ERROR


def fit(array: Floats, narrow: Narrow) -> Fit:
    """Compare a float32 constant of any shape with its rounded self; reads it in blocks."""
    flat = np.ravel(array)
    symbolic = beyond = 0
    noise = signal = 0.0
    for start in range(0, flat.size, _BLOCK):
        block = flat[start : start + _BLOCK]
        inside = np.abs(block) <= narrow.largest
        outside = block[np.isfinite(block) & ~inside]
        symbolic += int(_is_symbolic(outside).sum())
        beyond += int((~_is_symbolic(outside)).sum())
        block = block[inside]
        rounded = block.astype(narrow.numpy).astype(np.float32)
        noise += float(np.square(rounded - block, dtype=np.float64).sum())
        signal += float(np.square(block, dtype=np.float64).sum())
    return Fit(symbolic, beyond, (noise / signal) ** 0.5 if signal else 0.0)


def _is_symbolic(array: Floats) -> NDArray[np.bool_]:
    """Where a number says "leave this out" (a mask's -1e9) or "no limit" (3e38), and any large one would do."""
    return (array <= _MASKED) | (np.abs(array) >= _ENDLESS)


def bounded(array: Floats, bound: float) -> Floats:
    """Finite numbers beyond a bound brought back to it; infinity and NaN stay."""
    return np.where(np.isfinite(array), np.clip(array, -bound, bound), array).astype(np.float32)


def narrowed(array: Floats, narrow: Narrow, bound: float, *, lift: bool = False) -> NDArray[Any]:
    """A float32 constant in a narrow type.

    Args:
        array: of any shape.
        narrow: the type.
        bound: what finite numbers beyond the range become.
        lift: numbers too small become the smallest above zero instead of zero.
    """
    inside = np.abs(array) <= narrow.largest
    result = (array if inside.all() else np.where(inside, array, bounded(array, bound))).astype(narrow.numpy)
    if lift:
        lost = (result == 0) & (array != 0)
        result = np.where(lost, np.copysign(narrow.smallest, array), result).astype(narrow.numpy)
    return result
