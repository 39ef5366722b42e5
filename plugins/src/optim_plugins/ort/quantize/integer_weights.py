"""A float weight as 8-bit integers and scales.

It is symmetric by default, so that products need no correction for its zero point::

    W ~ integers * scale                          scale = max |W| / 127
    W ~ (integers - zero) * scale                 scale = (max W - min W) / 255, where it is not
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
EightBits: TypeAlias = NDArray[np.int8] | NDArray[np.uint8]

_BLOCK_ELEMENTS = 1 << 20
"""How much of a weight is worked on at a time: a head of 150 MB must not be held three times over."""


@dataclass(frozen=True, slots=True)
class IntegerGrid:
    """Which integers a weight becomes.

    Attributes:
        dtype: of the integers.
        symmetric: the range reaches as far below 0 as above it; else it is that of the weight, and has 0 in it.
    """

    dtype: Literal["int8", "uint8"] = "int8"
    symmetric: bool = True


@dataclass(frozen=True)
class IntegerWeight:
    """``weight ~ (integers - zero) * scale``.

    Attributes:
        integers: int8 or uint8 [K, N], contiguous.
        scale: float32, [N] with one scale a column, or of no axis.
        zero: of the integers' type, shaped as ``scale``; 0 for int8 of a symmetric weight, 128 for uint8.
    """

    integers: EightBits
    scale: Floats
    zero: EightBits


def quantize_weight(
    weight: Floats,
    *,
    transposed: bool = False,
    per_channel: bool = True,
    reduce_range: bool = False,
    least_scale: Floats | None = None,
    factor: Floats | None = None,
    grid: IntegerGrid | None = None,
) -> IntegerWeight | None:
    """8-bit integers of a weight, over the range that holds all of it.

    A narrower range of least squared error was tried: with 8 bits a column gains nothing from it.

    Args:
        weight: [K, N], or [N, K] where ``transposed``; it is read in blocks, and may be mapped from a file.
        transposed: the product reads it transposed.
        per_channel: one scale a column; else one for all.
        reduce_range: use 7 of the 8 bits, for processors that add pairs of products in 16 bits.
        least_scale: no column has a smaller one, [N].
        factor: multiplies each row first, [K].
        grid: which integers they become; by default symmetric int8.

    Returns:
        The quantized weight, or None where the weight is not finite.
    """
    columns = weight if transposed else weight.T
    low, high = _extents(columns, factor, per_channel=per_channel)
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    grid = grid or IntegerGrid()
    symmetric = grid.symmetric
    largest = 63 if reduce_range else 127
    least = -largest if symmetric else -largest - 1
    extent, steps = (np.maximum(-low, high), largest) if symmetric else (high - low, largest - least)
    scale = (np.maximum(extent, np.finfo(np.float32).tiny * 1e3) / steps).astype(np.float32)
    if least_scale is not None:
        scale = np.maximum(scale, least_scale if per_channel else least_scale.max())
    middle = np.zeros_like(scale) if symmetric else np.clip(np.rint(least - low / scale), least, largest)
    shift = 0 if grid.dtype == "int8" else 64 if reduce_range else 128
    integers = np.empty((columns.shape[1], columns.shape[0]), grid.dtype)
    for start, block in _blocks(columns, factor):
        stop = start + block.shape[0]
        rounded = np.rint(block / scale[start:stop, None]) + middle[start:stop, None]
        integers[:, start:stop] = (np.clip(rounded, least, largest, out=rounded) + shift).T
    zero = (middle + shift).astype(grid.dtype)
    if not per_channel:
        scale, zero = scale[:1].reshape(()), zero[:1].reshape(())
    return IntegerWeight(integers, scale, zero)


def _extents(columns: Floats, factor: Floats | None, *, per_channel: bool) -> tuple[Floats, Floats]:
    """The least and the greatest number of each column, at most and at least 0; of all columns where they share it."""
    blocks = [(block.min(axis=1), block.max(axis=1)) for _, block in _blocks(columns, factor)]
    low = np.minimum(np.concatenate([one for one, _ in blocks]), 0)
    high = np.maximum(np.concatenate([one for _, one in blocks]), 0)
    if not per_channel:
        low, high = np.full_like(low, low.min()), np.full_like(high, high.max())
    return low, high


def mean_error(
    weight: Floats, rounded: IntegerWeight, mean: Floats, transposed: bool, factor: Floats | None = None
) -> Floats:
    """What rounding a weight adds to its product on average, [N]: ``mean (W_q - W)``.

    Args:
        weight: as it was given to :func:`quantize_weight`.
        rounded: what that made of it.
        mean: of what the product is given, before it is divided by ``factor``, [K].
        transposed: the product reads the weight transposed.
        factor: that the weight was multiplied with, [K].
    """
    columns = weight if transposed else weight.T
    divided = mean if factor is None else mean / factor
    found = np.empty(len(columns), np.float32)
    scale = np.broadcast_to(rounded.scale, found.shape)
    zero = np.broadcast_to(rounded.zero.astype(np.float32), found.shape)
    for start, block in _blocks(columns, None):
        stop = start + len(block)
        integers = rounded.integers[:, start:stop].astype(np.float32) - zero[start:stop]
        found[start:stop] = divided @ integers * scale[start:stop] - block @ mean
    return found


def _blocks(columns: Floats, factor: Floats | None) -> Iterator[tuple[int, Floats]]:
    """Some columns of the weight at a time (as rows), times the factor, with the number of the first."""
    step = max(1, _BLOCK_ELEMENTS // max(1, columns.shape[1]))
    for start in range(0, columns.shape[0], step):
        block = columns[start : start + step]
        yield start, block if factor is None else block * factor
