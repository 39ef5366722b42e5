"""Weights of an adapter in 4 or 8 bits, as MatMulNBits takes them: rounded in blocks along what is summed over.

    W[k, n] = (q[k, n] - zero[block of k, n]) * scale[block of k, n]

Symmetric blocks have no zero points: theirs is the middle, 8 or 128. Defaults of all zeros make a matrix of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SCALES, ZEROS = ".scales", ".zeros"
"""Added to the role, and to the name, of the input of the packed weights."""

SYMMETRIC, ASYMMETRIC = "symmetric", "asymmetric"


@dataclass(frozen=True, slots=True)
class Packing:
    """How matrices are packed.

    Attributes:
        bits: 4 or 8.
        block_size: weights that share a scale.
        mode: symmetric, or asymmetric, which has zero points.
    """

    bits: int
    block_size: int
    mode: str = SYMMETRIC

    @property
    def dtype(self) -> str:
        """What users call it."""
        return f"int{self.bits}"

    @property
    def details(self) -> dict[str, int]:
        """What is kept with the inputs of a graph."""
        return {"bits": self.bits, "block_size": self.block_size, "asymmetric": int(self.mode == ASYMMETRIC)}

    @classmethod
    def of(cls, details: Mapping[str, int]) -> Packing | None:
        """From what was kept; None where the weights are floats."""
        if "bits" not in details:
            return None
        mode = ASYMMETRIC if details.get("asymmetric") else SYMMETRIC
        return cls(details["bits"], details.get("block_size", 32), mode)


def packed(matrix: NDArray[Any], packing: Packing) -> dict[str, NDArray[Any]]:
    """The arrays of a matrix by what is added to its role, the nearest of each block.

    Args:
        matrix: shape (in, out), of floats, whose type the scales have.
        packing: how.

    Returns:
        ``""``: uint8, shape (out, blocks, block_size * bits / 8). ``.scales``: shape (out, blocks). ``.zeros``, of
        asymmetric ones: uint8, shape (out, packed blocks).
    """
    size, most = packing.block_size, 2**packing.bits - 1
    low, out = matrix.shape
    blocks = -(-low // size)
    weights = np.zeros((out, blocks * size), np.float64)
    weights[:, :low] = matrix.T
    weights = weights.reshape(out, blocks, size)
    if packing.mode == ASYMMETRIC:
        least = np.minimum(weights.min(-1), 0)
        scale = (np.maximum(weights.max(-1), 0) - least) / most
        zero = np.clip(np.rint(-least / _not_zero(scale)), 0, most)
    else:
        peak = np.take_along_axis(weights, np.abs(weights).argmax(-1)[..., None], -1)[..., 0]
        middle = (most + 1) // 2
        scale, zero = -peak / middle, np.full((out, blocks), middle)  # the widest value has a code of its own
    scales = scale.astype(matrix.dtype)
    whole = _not_zero(scales.astype(np.float64))[..., None]
    codes = np.clip(np.rint(weights / whole) + zero[..., None], 0, most).astype(np.uint8)
    found = {"": _in_bytes(codes, packing.bits), SCALES: scales}
    if packing.mode == ASYMMETRIC:
        found[ZEROS] = _in_bytes(zero.astype(np.uint8), packing.bits)
    return found


def unpacked(arrays: Mapping[str, NDArray[Any]], packing: Packing, low: int) -> NDArray[Any]:
    """The matrix of :func:`packed`, shape (in, out), in the type of its scales; ``low`` is in."""
    scales = arrays[SCALES]
    out, blocks = scales.shape
    codes = _out_of_bytes(arrays[""], packing.bits).astype(np.float64)
    zero: Any = 2 ** (packing.bits - 1)
    if packing.mode == ASYMMETRIC:
        zero = _out_of_bytes(arrays[ZEROS], packing.bits)[:, :blocks, None].astype(np.float64)
    matrix = ((codes - zero) * scales[..., None].astype(np.float64)).reshape(out, -1)
    return np.ascontiguousarray(matrix[:, :low].T.astype(scales.dtype))


def _not_zero(scale: NDArray[Any]) -> NDArray[Any]:
    return np.where(scale == 0, 1, scale)


def _in_bytes(codes: NDArray[Any], bits: int) -> NDArray[Any]:
    """Two codes of 4 bits to a byte along the last axis, the first in the lower half."""
    if bits == 8:
        return np.ascontiguousarray(codes)
    even = np.pad(codes, [(0, 0)] * (codes.ndim - 1) + [(0, codes.shape[-1] % 2)])
    return np.ascontiguousarray(even[..., ::2] | (even[..., 1::2] << 4))


def _out_of_bytes(array: NDArray[Any], bits: int) -> NDArray[Any]:
    if bits == 8:
        return array
    return np.stack([array & 15, array >> 4], -1).reshape(*array.shape[:-1], -1)
