"""What products of 8 bits lose where neighbours are added in 16 bits, as AVX2 without VNNI does; computed anywhere.

The instruction vpmaddubsw multiplies unsigned with signed bytes and adds pairs along the sum::

    sat(q[0] * w[0] + q[1] * w[1]) + sat(q[2] * w[2] + q[3] * w[3]) + ...        sat: -32768 .. 32767

With 7-bit weights no pair can leave that range (255 * 63 * 2 = 32130), but each weight is rounded twice as coarsely.
Which of both costs more depends on what a node is given: near the zero point nothing saturates.

Held against onnxruntime 1.31 with its kernels for AVX2 alone: products and convolutions come out the same to the bit
(pairs run over channels first, then over the kernel), and depthwise convolutions do not saturate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
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
    lost = lost_to_saturation(integers, wide.integers.astype(np.int8, copy=False))
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


@dataclass(frozen=True, slots=True)
class Geometry:
    """Where a convolution puts its kernel: attributes of ONNX's Conv.

    Attributes:
        size: of the kernel, an integer for each axis of the image.
        dilations: as many.
        strides: as many.
        pads: zeros before all axes, then behind all of them; with SAME they follow from the image.
        auto_pad: ``NOTSET``, ``VALID``, ``SAME_UPPER`` or ``SAME_LOWER``.
    """

    size: tuple[int, ...]
    dilations: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    auto_pad: str = "NOTSET"

    @classmethod
    def of(cls, conv: ir.Node, size: Sequence[int]) -> Geometry:
        """That of a Conv whose kernel has this size."""
        ones = (1,) * len(size)

        def integers(name: str, default: Sequence[int]) -> tuple[int, ...]:
            return tuple(conv.attributes.get_ints(name, default))

        auto_pad = conv.attributes.get_string("auto_pad", "NOTSET")
        pads = integers("pads", (0,) * 2 * len(size)) if auto_pad == "NOTSET" else (0,) * 2 * len(size)
        return cls(tuple(size), integers("dilations", ones), integers("strides", ones), pads, auto_pad)

    def places(self, image: Sequence[int]) -> list[tuple[int, int]]:
        """For each axis of an image: how many places the kernel has, and how many zeros lie before the first."""
        found = []
        behind = self.pads[len(self.size) :]
        for length, k, step, stride, before, after in zip(
            image, self.size, self.dilations, self.strides, self.pads, behind, strict=False
        ):
            reach = (k - 1) * step + 1
            if self.auto_pad.startswith("SAME"):
                count = -(-length // stride)
                missing = max((count - 1) * stride + reach - length, 0)
                found.append((count, missing // 2 if self.auto_pad == "SAME_UPPER" else missing - missing // 2))
            else:
                found.append((max((length + before + after - reach) // stride + 1, 0), before))
        return found


def windows(image: Floats, geometry: Geometry, count: int, seed: int) -> Floats:
    """What a convolution multiplies at places chosen by chance, [count, K, C]: K places of the kernel, then channels.

    Args:
        image: [N, C, ...].
        geometry: of the convolution; what lies in its padding is 0.
        count: of windows; none come if the padded image is smaller than the kernel.
        seed: of the choice.
    """
    axes, inside = image.shape[2:], np.indices(geometry.size).reshape(len(geometry.size), -1).T
    places = geometry.places(axes)
    if min(image.shape[0], *(room for room, _ in places)) < 1:
        return np.zeros((0, len(inside), image.shape[1]), np.float32)
    random = np.random.default_rng(seed)
    sample = random.integers(0, image.shape[0], count)
    starts = np.stack([random.integers(0, room, count) for room, _ in places], axis=1) * np.array(geometry.strides)
    starts -= np.array([before for _, before in places])
    at = starts[:, None] + inside * np.array(geometry.dilations)
    is_inside = ((at >= 0) & (at < np.array(axes))).all(axis=2)
    at = np.clip(at, 0, np.array(axes) - 1)
    chosen = (sample[:, None], slice(None), *np.moveaxis(at, -1, 0))
    return np.where(is_inside[..., None], image[chosen], np.float32(0)).astype(np.float32, copy=False)
