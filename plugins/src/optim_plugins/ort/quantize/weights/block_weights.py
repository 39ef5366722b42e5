"""A float weight as integers of 2, 4 or 8 bits with one scale for each block of rows: what ``MatMulNBits`` reads.

    weight[k, n] ~ (integers[n, k] - zero_point[n, k // block]) * scale[n, k // block]

A symmetric block has its zero point in the middle, 2 ** (bits - 1), and none is stored. Packing is that of onnxruntime
``docs/ContribOperators.md#commicrosoftmatmulnbits``: lower bits first, along the rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Bytes: TypeAlias = NDArray[np.uint8]

_CHUNK_ELEMENTS = 1 << 18
"""How much of a weight is worked on at a time: what is computed from it stays in the processor's cache."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What integers there are.

    Attributes:
        bits: 2, 4 or 8.
        block: weights of one column that share a scale; a power of two, at least 16.
        symmetric: the zero point is in the middle.
    """

    bits: int
    block: int
    symmetric: bool

    @property
    def largest(self) -> int:
        """The largest integer; the smallest is 0."""
        return (1 << self.bits) - 1

    @property
    def middle(self) -> int:
        """The zero point of a symmetric block."""
        return 1 << (self.bits - 1)

    def blocks(self, rows: int) -> int:
        """How many blocks a column has; the last may be padded."""
        return -(-rows // self.block)


@dataclass(frozen=True, slots=True)
class Rounded:
    """Some columns on the grid, in blocks.

    Attributes:
        integers: [C, blocks, block], 0 to ``largest``.
        scale: float32 [C, blocks], positive, or negative in a symmetric block whose largest weight is positive.
        zero_point: [C, blocks], integers; fractions, as float32, where the method gives those.
    """

    integers: Bytes
    scale: Floats
    zero_point: Bytes | Floats

    def restored(self) -> Floats:
        """The weights that these integers stand for, [C, blocks, block]."""
        shifted = self.integers.astype(np.float32) - self.zero_point[..., None]
        restored: Floats = shifted * self.scale[..., None]
        return restored


@dataclass(frozen=True, slots=True)
class BlockWeight:
    """A whole weight, packed.

    Attributes:
        packed: uint8 [N, blocks, block * bits / 8].
        scale: float32 [N, blocks].
        zero_points: uint8 [N, ceil(blocks * bits / 8)], or float32 [N, blocks] where they are fractions, or None where
            every block is symmetric.
    """

    packed: Bytes
    scale: Floats
    zero_points: Bytes | Floats | None


class BlockWeightWriter:
    """Collects rounded columns into a packed weight."""

    def __init__(self, rows: int, columns: int, grid: Grid) -> None:
        blocks = grid.blocks(rows)
        self._grid = grid
        self._packed = np.empty((columns, blocks, grid.block * grid.bits // 8), np.uint8)
        self._scale = np.empty((columns, blocks), np.float32)
        self._zero_points = np.empty((columns, blocks), np.float32)
        self._fractions = False

    def put(self, start: int, rounded: Rounded) -> None:
        """Write columns, the first being number ``start``."""
        stop = start + len(rounded.scale)
        self._packed[start:stop] = pack(rounded.integers, self._grid.bits)
        self._scale[start:stop] = rounded.scale
        self._zero_points[start:stop] = rounded.zero_point
        self._fractions |= rounded.zero_point.dtype == np.float32

    def finish(self) -> BlockWeight:
        """The weight."""
        return BlockWeight(self._packed, self._scale, self._stored_zero_points())

    def _stored_zero_points(self) -> Bytes | Floats | None:
        if self._grid.symmetric or self._fractions:
            return None if self._grid.symmetric else self._zero_points
        missing = -self._zero_points.shape[1] % (8 // self._grid.bits)
        return pack(np.pad(self._zero_points, ((0, 0), (0, missing))).astype(np.uint8), self._grid.bits)


def blocked(columns: Floats, grid: Grid) -> Floats:
    """Columns [C, K] in blocks [C, blocks, block], the last one filled up with zeros."""
    missing = grid.blocks(columns.shape[1]) * grid.block - columns.shape[1]
    if missing:
        columns = np.pad(columns, ((0, 0), (0, missing)))
    return np.ascontiguousarray(columns, np.float32).reshape(len(columns), -1, grid.block)


def chunks(columns: Floats) -> Iterator[tuple[int, Floats]]:
    """Some columns (as rows of ``columns``) at a time, with the number of the first."""
    step = max(1, _CHUNK_ELEMENTS // max(1, columns.shape[1]))
    for start in range(0, len(columns), step):
        yield start, columns[start : start + step]


def pack(integers: Bytes, bits: int) -> Bytes:
    """Integers of so many bits, several in a byte along the last axis, the first in its lowest bits."""
    if bits == 8:
        return integers
    each = 8 // bits
    parts = integers.reshape(*integers.shape[:-1], -1, each)
    packed = np.zeros(parts.shape[:-1], np.uint8)
    for place in range(each):
        packed |= parts[..., place] << np.uint8(place * bits)
    return packed
