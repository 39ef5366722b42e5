"""GPTQ: weights rounded one input after the other, each error made up for in the inputs that are still to come.

With ``H = E[x x^T]`` of what the product is given, and ``U`` the upper Cholesky factor of ``H^-1``::

    for k in inputs, those of the largest H[k, k] first:
        q[k]  = round(w[k])
        w[j] -= (w[k] - q[k]) / U[k, k] * U[k, j]        for j that come after k

Frantar, Ashkboos, Hoefler, Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", 2023. Scales are fitted before, for each block, to the error that counts: each weight's by how large its
input is. So the order of rounding does not matter to them, and no index of groups has to be stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optim_plugins.ort.quantize.weights.block_rounding import k_quant
from optim_plugins.ort.quantize.weights.block_weights import Floats, Grid, Rounded, blocked
from optim_plugins.ort.quantize.weights.seen_inputs import Inputs, parts

_DAMPING = 0.01
_SPAN = 32
"""Inputs whose errors are gathered before they are passed on to all that follow: a product of matrices, not vectors."""
_COLUMNS = 2048
_INVERTED_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """In which order the inputs of a part are rounded, and what that takes.

    Attributes:
        inputs: the part's place among all inputs.
        order: int [k], numbers within the part.
        factor: float32 [k, k], U for inputs in that order.
    """

    inputs: slice
    order: NDArray[np.intp]
    factor: Floats


def orders(inputs: Inputs) -> list[ColumnOrder]:
    """One for each part; products that read the same input share them."""
    found = []
    for place, summed in zip(parts(len(inputs.squares)), inputs.products, strict=True):
        moments = inputs.moments(summed)
        order = np.argsort(-np.diag(moments), kind="stable")
        found.append(ColumnOrder(place, order, _factor(moments[np.ix_(order, order)])))
    return found


def gptq(columns: Floats, importance: Floats, ordered: list[ColumnOrder], grid: Grid) -> Iterator[tuple[int, Rounded]]:
    """Columns [N, K] rounded, some at a time with the number of the first.

    Args:
        columns: the weight, finite; read in blocks.
        importance: of each input, [K].
        ordered: of the inputs.
        grid: to round to.
    """
    weights = blocked(importance[None], grid)[0]
    for start in range(0, len(columns), _COLUMNS):
        chunk = np.asarray(columns[start : start + _COLUMNS], np.float32)
        scaled = k_quant(blocked(chunk, grid), grid, weights)
        integers = np.full((grid.blocks(chunk.shape[1]) * grid.block, len(chunk)), grid.middle, np.uint8)
        scale, zero = np.ascontiguousarray(scaled.scale.T), scaled.zero_point.T.astype(np.float32)
        for part in ordered:
            inputs = part.order + part.inputs.start
            work = np.ascontiguousarray(chunk.T[inputs])
            integers[inputs] = _round(work, part.factor, scale, zero, inputs // grid.block, grid)
        yield start, Rounded(integers.T.reshape(scaled.integers.shape), scaled.scale, scaled.zero_point)


def _factor(moments: Floats) -> Floats:
    """The upper Cholesky factor of the damped inverse, [k, k].

    With J that turns the order round, J H J = L L^T, so H = M M^T with the upper triangle M = J L J, and U = M^-1.
    """
    damped: NDArray[np.float64] = moments[::-1, ::-1].astype(np.float64)
    diagonal = np.einsum("kk->k", damped)
    diagonal += _DAMPING * max(float(diagonal.mean()), 1e-12)
    lower = np.asarray(np.linalg.cholesky(damped), np.float64)
    return _inverse(lower[::-1, ::-1]).astype(np.float32)


def _inverse(upper: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of an upper triangle, by halves: three times as fast as that of any matrix."""
    size = len(upper)
    if size <= _INVERTED_AT_ONCE:
        return np.asarray(np.triu(np.linalg.inv(upper)))
    half = size // 2
    found = np.zeros_like(upper)
    found[:half, :half], found[half:, half:] = _inverse(upper[:half, :half]), _inverse(upper[half:, half:])
    found[:half, half:] = -found[:half, :half] @ upper[:half, half:] @ found[half:, half:]
    return found


def _round(
    work: Floats, factor: Floats, scale: Floats, zero: Floats, block: NDArray[np.intp], grid: Grid
) -> NDArray[np.uint8]:
    """Integers [k, C] of ``work``, which is used up; ``block`` says which scale [blocks, C] each input has."""
    rows, columns = work.shape
    integers = np.empty((rows, columns), np.uint8)
    errors = np.empty((_SPAN, columns), np.float32)
    for first in range(0, rows, _SPAN):
        last = min(first + _SPAN, rows)
        for k in range(first, last):
            own, middle = scale[block[k]], zero[block[k]]
            steps = np.rint(work[k] / own)
            steps += middle
            np.clip(steps, 0, grid.largest, out=steps)
            integers[k] = steps
            steps -= middle
            steps *= own
            error = errors[k - first]
            np.subtract(work[k], steps, out=error)
            error /= factor[k, k]
            if k + 1 < last:
                work[k + 1 : last] -= factor[k, k + 1 : last, None] * error
        work[last:] -= factor[first:last, last:].T @ errors[: last - first]
    return integers
