"""GPTQ: weights rounded one input after the other, each error made up for in the inputs that are still to come.

With ``H = X^T X`` of what the product is given, and ``U`` the upper Cholesky factor of ``H^-1``::

    for k in inputs:
        q[k]  = round(w[k])
        w[j] -= (w[k] - q[k]) / U[k, k] * U[k, j]        for j > k

Frantar, Ashkboos, Hoefler, Alistarh, "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
Transformers", 2023. Scales are those of k-quant, found for each block when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optim_plugins.ort.quantize.weights.block_rounding import k_quant
from optim_plugins.ort.quantize.weights.block_weights import Floats, Grid, Rounded

_DAMPING = 0.01
_SPAN = 32
"""Inputs whose errors are gathered before they are passed on to all that follow: a product of matrices, not vectors."""
_COLUMNS = 2048


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a product was given on the samples.

    Attributes:
        squares: float32 [K, K], the sum of x x^T.
        rows: how many x there were.
    """

    squares: Floats
    rows: int

    @property
    def suffice(self) -> bool:
        """Whether there are enough to tell one direction from another; else errors go where the samples do not look."""
        return 2 * self.rows >= len(self.squares)


def gptq(columns: Floats, inputs: Inputs, grid: Grid) -> Iterator[tuple[int, Rounded]]:
    """Columns [N, K] rounded, some at a time with the number of the first.

    Args:
        columns: the weight, finite; read in blocks.
        inputs: of the product.
        grid: to round to.
    """
    factor = _factor(inputs.squares)
    for start in range(0, len(columns), _COLUMNS):
        yield start, _round(np.array(columns[start : start + _COLUMNS].T, np.float32, order="C"), factor, grid)


def _factor(squares: Floats) -> Floats:
    """The upper Cholesky factor of the damped inverse, [K, K]."""
    damped: NDArray[np.float64] = squares.astype(np.float64)
    diagonal = np.einsum("kk->k", damped)
    diagonal += _DAMPING * max(float(diagonal.mean()), 1e-12)
    inverse = np.linalg.inv(damped)
    upper: Floats = np.linalg.cholesky((inverse + inverse.T) / 2).T.astype(np.float32)
    return upper


def _round(work: Floats, factor: Floats, grid: Grid) -> Rounded:
    """``work``, [K, N], is used up."""
    rows, columns = work.shape
    blocks = grid.blocks(rows)
    integers = np.full((blocks * grid.block, columns), grid.middle, np.uint8)
    scale = np.empty((blocks, columns), np.float32)
    zero = np.empty((blocks, columns), np.uint8)
    for first in range(0, rows, _SPAN):
        last = min(first + _SPAN, rows)
        errors = np.empty((last - first, columns), np.float32)
        for k in range(first, last):
            block = k // grid.block
            if k % grid.block == 0:
                found = k_quant(_one_block(work[k : k + grid.block], grid), grid)
                scale[block], zero[block] = found.scale[:, 0], found.zero_point[:, 0]
            steps = np.clip(np.rint(work[k] / scale[block]) + zero[block], 0, grid.largest)
            integers[k] = steps
            error = errors[k - first]
            np.divide(work[k] - (steps - zero[block]) * scale[block], factor[k, k], out=error)
            if k + 1 < last:
                work[k + 1 : last] -= factor[k, k + 1 : last, None] * error
        work[last:] -= factor[first:last, last:].T @ errors
    return Rounded(np.ascontiguousarray(integers.T).reshape(columns, blocks, grid.block), scale.T, zero.T)


def _one_block(part: Floats, grid: Grid) -> Floats:
    missing = grid.block - len(part)
    whole = np.pad(part, ((0, missing), (0, 0))) if missing else part
    return np.ascontiguousarray(whole.T)[:, None, :]
