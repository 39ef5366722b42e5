"""A float weight as 8-bit integers and scales: symmetric, so that products need no correction for its zero point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

_BLOCK_ELEMENTS = 1 << 20
"""How much of a weight is worked on at a time: a head of 150 MB must not be held three times over."""


@dataclass(frozen=True)
class IntegerWeight:
    """``weight ~ integers * scale``.

    Attributes:
        integers: int8 [K, N], contiguous.
        scale: float32, [N] with one scale a column, or of no axis.
    """

    integers: NDArray[np.int8]
    scale: Floats


def quantize_weight(
    weight: Floats,
    *,
    transposed: bool = False,
    per_channel: bool = True,
    reduce_range: bool = False,
    least_scale: Floats | None = None,
    factor: Floats | None = None,
) -> IntegerWeight | None:
    """Symmetric int8 of a weight, over the range that holds all of it.

    A narrower range of least squared error was tried: with 8 bits a column gains nothing from it.

    Args:
        weight: [K, N], or [N, K] where ``transposed``; it is read in blocks, and may be mapped from a file.
        transposed: the product reads it transposed.
        per_channel: one scale a column; else one for all.
        reduce_range: use 7 of the 8 bits, for processors that add pairs of products in 16 bits.
        least_scale: no column has a smaller one, [N].
        factor: multiplies each row first, [K].

    Returns:
        The quantized weight, or None where the weight is not finite.
    """
    columns = weight if transposed else weight.T
    largest = 63 if reduce_range else 127
    extent = np.concatenate([np.abs(block).max(axis=1) for _, block in _blocks(columns, factor)])
    if not np.isfinite(extent).all():
        return None
    if not per_channel:
        extent = np.full_like(extent, extent.max())
    scale = (np.maximum(extent, np.finfo(np.float32).tiny * 1e3) / largest).astype(np.float32)
    if least_scale is not None:
        scale = np.maximum(scale, least_scale if per_channel else least_scale.max())
    integers = np.empty((columns.shape[1], columns.shape[0]), np.int8)
    for start, block in _blocks(columns, factor):
        stop = start + block.shape[0]
        integers[:, start:stop] = _rounded(block, scale[start:stop], largest).T
    return IntegerWeight(integers, scale if per_channel else scale[:1].reshape(()))


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
    for start, block in _blocks(columns, None):
        stop = start + len(block)
        found[start:stop] = divided @ rounded.integers[:, start:stop] * scale[start:stop] - block @ mean
    return found


def _blocks(columns: Floats, factor: Floats | None) -> Iterator[tuple[int, Floats]]:
    """Some columns of the weight at a time (as rows), times the factor, with the number of the first."""
    step = max(1, _BLOCK_ELEMENTS // max(1, columns.shape[1]))
    for start in range(0, columns.shape[0], step):
        block = columns[start : start + step]
        yield start, block if factor is None else block * factor


def _rounded(block: Floats, scale: Floats, largest: int) -> Floats:
    scaled: Floats = np.rint(block / scale[:, None])
    return np.clip(scaled, -largest, largest, out=scaled)
