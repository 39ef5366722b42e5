"""Denormal numbers in float32 weights: processors compute with them many times slower than with others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

_BLOCK = 1 << 22
"""Elements looked at together: the mask of a weight of gigabytes is never held as a whole."""


def is_denormal(array: NDArray[np.float32]) -> NDArray[np.bool_]:
    """A mask of the numbers below the smallest normal one, zero excepted.

    The mask follows from the bits: in a process that flushes denormals, a comparison takes them for zeros.
    """
    magnitude = np.ascontiguousarray(array).view(np.uint32) & np.uint32(0x7FFFFFFF)
    return (magnitude - np.uint32(1)) < np.uint32(0x007FFFFF)


def denormal_weights(graph: ir.Model) -> Iterator[tuple[ir.Value, int]]:
    """The float32 weights of a graph with denormal numbers, and how many each has. Reads all float32 weights."""
    for part in graph.graphs():
        for value in part.initializers.values():
            weight = value.const_value
            if weight is None or weight.dtype != ir.DataType.FLOAT:
                continue
            flat = weight.numpy().reshape(-1)
            blocks = (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))
            if count := sum(int(is_denormal(block).sum()) for block in blocks):
                yield value, count
