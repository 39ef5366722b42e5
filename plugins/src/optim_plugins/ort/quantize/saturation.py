"""What products of 8 bits lose where neighbours are added in 16 bits, as AVX2 without VNNI does; computed anywhere.

The instruction vpmaddubsw multiplies unsigned with signed bytes and adds pairs along the sum::

    sat(q[0] * w[0] + q[1] * w[1]) + sat(q[2] * w[2] + q[3] * w[3]) + ...        sat: -32768 .. 32767

With 7-bit weights no pair can leave that range (255 * 63 * 2 = 32130), but each weight is rounded twice as coarsely.
Which of both costs more depends on what a node is given: near the zero point nothing saturates.

Held against onnxruntime 1.31 with its kernels for AVX2 alone: products and convolutions come out the same to the bit
(pairs run over channels first, then over the kernel), and convolutions of one channel a group do not saturate.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from optim_plugins.ort.quantize.integer_weights import Floats, quantize_weight

_HIGHEST, _LOWEST = 2**15 - 1, -(2**15)
_MOST_PAIRS = 1 << 21
"""Products of pairs that are held at a time: 8 MB for 32-bit sums."""

Integers = NDArray[np.int32]


def narrower_is_closer(rows: Floats, weight: Floats, scale: float, zero: int) -> bool:
    """Whether a product with 7-bit weights is closer to that of floats than one with 8 bits that saturates.

    Args:
        rows: what the product is given, [R, K].
        weight: [K, N].
        scale: of the 8-bit integers that the rows become.
        zero: their zero point; the integers are unsigned.
    """
    wide, narrow = quantize_weight(weight), quantize_weight(weight, reduce_range=True)
    if wide is None or narrow is None or not len(rows):
        return False
    integers = np.clip(np.rint(rows.astype(np.float64) / scale) + zero, 0, 255).astype(np.int32)
    lost = lost_to_saturation(integers, wide.integers)
    if not lost.any():
        return False
    exact = rows.astype(np.float64) @ weight.astype(np.float64)
    moved = (integers - zero).astype(np.float64)

    def error(sums: NDArray[np.float64], weight_scale: Floats) -> float:
        return float(np.linalg.norm(sums * scale * weight_scale - exact))

    with_saturation = error(moved @ wide.integers.astype(np.float64) - lost, wide.scale)
    return with_saturation > error(moved @ narrow.integers.astype(np.float64), narrow.scale)


def lost_to_saturation(rows: Integers, weight: NDArray[np.int8]) -> Integers:
    """How much the sums would be larger if pairs did not saturate, [R, N].

    Args:
        rows: 0..255, [R, K].
        weight: [K, N].
    """
    if rows.shape[1] % 2:
        rows, weight = np.pad(rows, ((0, 0), (0, 1))), np.pad(weight, ((0, 1), (0, 0)))
    lost = np.zeros((weight.shape[1], len(rows)), np.int32)
    first, second = weight[0::2].astype(np.int32), weight[1::2].astype(np.int32)
    highest = rows.max(axis=0)
    reach = np.abs(highest[0::2, None] * first + highest[1::2, None] * second)
    pairs, columns = np.nonzero((reach > _HIGHEST) & (np.sign(first) == np.sign(second)))
    step = max(1, _MOST_PAIRS // max(1, len(rows)))
    for start in range(0, len(pairs), step):
        pair, column = pairs[start : start + step], columns[start : start + step]
        sums = rows[:, 2 * pair] * first[pair, column] + rows[:, 2 * pair + 1] * second[pair, column]
        np.add.at(lost, column, (sums - np.clip(sums, _LOWEST, _HIGHEST)).T)
    return lost.T


def windows(image: Floats, size: tuple[int, ...], dilations: tuple[int, ...], count: int, seed: int) -> Floats:
    """What a convolution multiplies at places chosen by chance, [count, K, C]: K places of the kernel, then channels.

    Args:
        image: [N, C, ...].
        size: of the kernel.
        dilations: as many.
        count: of windows; none come where the image is smaller than the kernel.
        seed: of the choice.
    """
    room = [axis - (k - 1) * step for axis, k, step in zip(image.shape[2:], size, dilations, strict=True)]
    if min(room, default=0) < 1:
        return np.zeros((0, int(np.prod(size)), image.shape[1]), np.float32)
    random = np.random.default_rng(seed)
    sample = random.integers(0, image.shape[0], count)
    starts = np.stack([random.integers(0, left, count) for left in room], axis=1)
    inside = np.stack(np.meshgrid(*map(np.arange, size), indexing="ij"), axis=-1).reshape(-1, len(size))
    places = starts[:, None] + inside * np.array(dilations)
    chosen = (sample[:, None], slice(None), *np.moveaxis(places, -1, 0))
    return np.asarray(image[chosen], np.float32)
