"""Scales and zero points of tensors, and weights and biases as integers, for convolutions and products alike.

value ~ (integer - zero_point) * scale

Floats of 8 bits (E4M3) take the place of integers where a runtime multiplies those: value ~ float8 * scale, with a zero
point of 0, and scales by which the largest value becomes 448.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array, dtype_of
from optim_plugins.ort.measure.integer_ranges import Range
from optim_plugins.ort.quantize.integer_weights import Floats, quantize_weight

FLOAT8 = "float8_e4m3fn"

_MOST_FLOAT8 = 448.0

MOST_BIAS = 2**30
"""In steps of the accumulator, which leaves room for what is added up."""


@dataclass(frozen=True, slots=True)
class IntScale:
    """How a tensor becomes integers: arrays of no axis, ``zero`` of the integers' type."""

    scale: NDArray[np.float32]
    zero: Array

    @property
    def as_numbers(self) -> tuple[float, int]:
        """Scale and zero point."""
        return float(self.scale), int(self.zero)


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight as integers.

    Attributes:
        integers: of the shape of the weight.
        scale: float32, [N] for N output channels, or of no axis.
        zero: of the integers' type, shaped as ``scale``.
        error: float32 [N, ...], what the integers stand for less the weight, channels first; None where not asked for.
    """

    integers: Array
    scale: Floats
    zero: Array
    error: Floats | None


@dataclass(frozen=True, slots=True)
class WeightStyle:
    """Which integers weights become.

    Attributes:
        dtype: ``int8``, ``uint8``, :data:`FLOAT8`, or ``float32``: they stay as they are.
        per_channel: one scale for each output channel, not one for all.
        reduce_range: 7 bits, not 8.
        fill_channels: fill up the input channels of convolutions with zeros, for kernels that take multiples of four.
        pairs: store them in float before a pair of QuantizeLinear and DequantizeLinear.
        readers_apart: each reader of a tensor has a pair of its own.
    """

    dtype: str
    per_channel: bool
    reduce_range: bool = False
    fill_channels: bool = False
    pairs: bool = False
    readers_apart: bool = False


def scale_of(one: Range, dtype: str, *, symmetric: bool = False) -> IntScale:
    """The whole range on the whole type; 0 is exactly an integer, and the zero point where that is symmetric."""
    low, high = min(one.low, 0.0), max(one.high, 0.0)
    widest = max(-low, high, float(np.finfo(np.float32).tiny) * 1e5)
    if dtype == FLOAT8:
        return IntScale(np.array(widest / _MOST_FLOAT8, np.float32), np.zeros((), dtype_of(dtype)))
    info = np.iinfo(dtype)
    if symmetric:
        return IntScale(np.array(widest / int(info.max), np.float32), np.array(0, dtype))
    scale = max((high - low) / (int(info.max) - int(info.min)), float(np.finfo(np.float32).tiny) * 1e3)
    zero = np.clip(np.rint(int(info.min) - low / scale), info.min, info.max)
    return IntScale(np.array(scale, np.float32), np.array(zero, dtype))


def constant_integers(numbers: NDArray[np.float64], dtype: np.dtype[Any], axes: int) -> dict[str, Array]:
    """A constant as integers, scale and zero point: one number exactly, one for each channel to 1/254 of the largest.

    Args:
        numbers: of no axis, or [C] for the second axis of a tensor.
        dtype: of the integers.
        axes: of the tensor.
    """
    largest = float(np.abs(numbers).max()) or 1.0
    zero = np.array(128 if dtype == np.uint8 else 0, dtype)
    shape = () if numbers.size == 1 else (-1, *[1] * (axes - 2))
    integers = (np.rint(numbers / largest * 127) + zero).astype(dtype).reshape(shape)
    return {"addend": integers, "addend_scale": np.array(largest / 127, np.float32), "addend_zero": zero}


def round_channels(
    weight: Floats,
    how: WeightStyle,
    *,
    source: IntScale,
    bias: Floats | None = None,
    factor: Floats | None = None,
    with_error: bool = False,
) -> Weight | None:
    """A weight whose first axis is the output channels.

    Args:
        weight: [N, ...].
        how: the integers.
        source: of what the weight is multiplied with.
        bias: [N]; where it is huge beside the weight, the scale is widened so that it fits the accumulator.
        factor: multiplies each input channel of a weight [N, K] first, [K].
        with_error: tell what rounding changed.

    Returns:
        The integers, or None where the weight is not finite.
    """
    rows = weight.reshape(len(weight), -1)
    if how.dtype == FLOAT8:
        return _as_float8(rows if factor is None else rows * factor, weight.shape, how.per_channel)
    least = None
    if bias is not None:
        least = (np.abs(bias.astype(np.float64)) / (float(source.scale) * MOST_BIAS)).astype(np.float32)
    found = quantize_weight(
        rows,
        transposed=True,
        per_channel=how.per_channel,
        reduce_range=how.reduce_range,
        least_scale=least,
        factor=factor,
    )
    if found is None:
        return None
    integers: Array = np.ascontiguousarray(found.integers.T).reshape(weight.shape)
    error = None
    if with_error:
        shape = (-1, *[1] * (weight.ndim - 1))
        restored = found.integers.T.reshape(weight.shape) * np.broadcast_to(found.scale, len(weight)).reshape(shape)
        error = (restored - (weight if factor is None else weight * factor)).astype(np.float32)
    zero = np.zeros(found.scale.shape, how.dtype)
    if how.dtype == "uint8":
        integers, zero = (integers.astype(np.int16) + 128).astype(np.uint8), zero + np.uint8(128)
    return Weight(integers, found.scale, zero, error)


def _as_float8(rows: Floats, shape: tuple[int, ...], per_channel: bool) -> Weight | None:
    if not np.isfinite(rows).all():
        return None
    largest = np.abs(rows).max(axis=1 if per_channel else None)
    scale = (np.maximum(largest, np.float32(1e-12)) / np.float32(_MOST_FLOAT8)).astype(np.float32)
    floats: Array = (rows / (scale[:, None] if per_channel else scale)).astype(dtype_of(FLOAT8)).reshape(shape)
    return Weight(floats, scale, np.zeros(scale.shape, dtype_of(FLOAT8)), None)


def round_bias(bias: Floats, source: IntScale, weight: Weight) -> NDArray[np.int32]:
    """A bias [N] as the accumulator of the product holds it."""
    step = source.scale.astype(np.float64) * weight.scale
    return np.clip(np.rint(bias / step), -2 * MOST_BIAS, 2 * MOST_BIAS - 1).astype(np.int32)
