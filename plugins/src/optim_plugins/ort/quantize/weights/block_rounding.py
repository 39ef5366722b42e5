"""Ways to round blocks of weights to a grid, each weight by itself: to nearest, k-quant, HQQ.

To nearest takes the scale from the range of a block. The other two give up a little of the range for less error:

- k-quant searches scales near that one, and fits scale and zero point to the rounded weights by least squares
  (llama.cpp, ``make_qkx2_quants``). Where it is known how large each input is, errors count by that, as in NNCF's scale
  estimation.
- HQQ moves the zero point so that the few large errors count less (Badri and Shaji, "Half-Quadratic Quantization of
  Large Machine Learning Models", 2023).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from optim_plugins.ort.quantize.weights.block_weights import Bytes, Floats, Grid, Rounded

Rounding = Callable[[Floats, Grid], Rounded]

_TINY = np.float32(1e-30)
_STEPS = 12
_HQQ_ROUNDS = 20
_HQQ_POWER, _HQQ_BETA, _HQQ_GROWTH = 0.7, 10.0, 1.01


def to_nearest(blocks: Floats, grid: Grid) -> Rounded:
    """Blocks [C, blocks, block] over the range that holds all of each."""
    scale, zero = _range(blocks, grid)
    return _rounded(blocks, scale, zero, grid)


def k_quant(blocks: Floats, grid: Grid, importance: Floats | None = None) -> Rounded:
    """Scales searched for the least squared error, [C, blocks, block].

    Args:
        blocks: of weights.
        grid: to round to.
        importance: how much the square of each input's error counts, [blocks, block]; all the same if None.
    """
    weights = np.ones(blocks.shape[1:], np.float32) if importance is None else importance
    return _best_symmetric(blocks, grid, weights) if grid.symmetric else _best_asymmetric(blocks, grid, weights)


def hqq(blocks: Floats, grid: Grid) -> Rounded:
    """Fractional zero points, [C, blocks, block]; a symmetric grid has none."""
    scale, whole = _range(blocks, grid)
    scale = scale[..., None]
    zero = whole.astype(np.float32)[..., None]
    best, least, beta = _fractional(blocks, scale, zero, grid), np.inf, _HQQ_BETA
    for _ in range(_HQQ_ROUNDS):
        tried = _fractional(blocks, scale, zero, grid)
        error = blocks - tried.restored()
        size = np.abs(error)
        if (mean := float(size.mean())) >= least:
            break
        best, least = tried, mean
        shrunk = np.sign(error) * np.maximum(0, size - np.power(size + 1e-8, _HQQ_POWER - 1) / beta)
        zero = (tried.integers - (blocks - shrunk) / scale).mean(axis=-1, keepdims=True)
        beta *= _HQQ_GROWTH
    return best


def _fractional(blocks: Floats, scale: Floats, zero: Floats, grid: Grid) -> Rounded:
    integers = np.clip(np.rint(blocks / scale + zero), 0, grid.largest).astype(np.uint8)
    return Rounded(integers, scale[..., 0], zero[..., 0])


METHODS: dict[str, Rounding] = {"rtn": to_nearest, "k-quant": k_quant, "hqq": hqq}
"""Those that need no samples."""


def _range(blocks: Floats, grid: Grid) -> tuple[Floats, Bytes]:
    """Scale and zero point of each block, [C, blocks] both."""
    low, high = np.minimum(blocks.min(axis=-1), 0), np.maximum(blocks.max(axis=-1), 0)
    if grid.symmetric:
        # One more integer lies below the middle than above: the weight of the largest size is put there.
        extreme = np.where(-low > high, low, high)
        scale = extreme / np.float32(-grid.middle)
        scale = np.where(np.abs(scale) < _TINY, _TINY, scale).astype(np.float32)
        return scale, np.full(scale.shape, grid.middle, np.uint8)
    scale = np.maximum((high - low) / np.float32(grid.largest), _TINY).astype(np.float32)
    return scale, np.clip(np.rint(-low / scale), 0, grid.largest).astype(np.uint8)


def _rounded(blocks: Floats, scale: Floats, zero: Bytes | Floats, grid: Grid) -> Rounded:
    integers = np.rint(blocks / scale[..., None])
    integers += zero[..., None]
    return Rounded(np.clip(integers, 0, grid.largest, out=integers).astype(np.uint8), scale, zero)


def _best_symmetric(blocks: Floats, grid: Grid, importance: Floats) -> Rounded:
    best = to_nearest(blocks, grid)
    least = _squares(blocks, best, importance)
    for share in np.linspace(0.7, 1.1, _STEPS, dtype=np.float32):
        tried = _rounded(blocks, best.scale / share, best.zero_point, grid)
        fitted = _fitted(blocks, tried, importance)
        fitted = np.where(np.abs(fitted) < _TINY, tried.scale, fitted)
        best, least = _better(best, least, Rounded(tried.integers, fitted, tried.zero_point), blocks, importance)
    return best


def _best_asymmetric(blocks: Floats, grid: Grid, importance: Floats) -> Rounded:
    first = best = to_nearest(blocks, grid)
    least = _squares(blocks, best, importance)
    middle = (np.maximum(blocks.max(axis=-1), 0) + np.minimum(blocks.min(axis=-1), 0)) / 2
    for share in np.linspace(0.7, 1.0, _STEPS, dtype=np.float32):
        scale = np.maximum(first.scale * share, _TINY)
        zero = np.clip(np.rint(grid.largest / 2 - middle / scale), 0, grid.largest).astype(np.uint8)
        tried = _rounded(blocks, scale, zero, grid)
        fitted = _fitted(blocks, tried, importance)
        fitted = np.where(fitted < _TINY, scale, fitted)
        best, least = _better(best, least, Rounded(tried.integers, fitted, zero), blocks, importance)
    return best


def _fitted(blocks: Floats, rounded: Rounded, importance: Floats) -> Floats:
    """The scale of least squared error for these integers, [C, blocks]; 0 where they say nothing."""
    steps = rounded.integers.astype(np.float32)
    steps -= rounded.zero_point[..., None]
    weighted = steps * importance
    up, down = np.einsum("...i,...i->...", weighted, blocks), np.einsum("...i,...i->...", weighted, steps)
    fitted: Floats = up / np.where(down > 0, down, 1)
    return fitted


def _better(best: Rounded, least: Floats, tried: Rounded, blocks: Floats, importance: Floats) -> tuple[Rounded, Floats]:
    """Block by block the one of less squared error."""
    error = _squares(blocks, tried, importance)
    wins = error < least
    return Rounded(
        np.where(wins[..., None], tried.integers, best.integers),
        np.where(wins, tried.scale, best.scale),
        np.where(wins, tried.zero_point, best.zero_point),
    ), np.where(wins, error, least)


def _squares(blocks: Floats, rounded: Rounded, importance: Floats) -> Floats:
    error = rounded.restored()
    error -= blocks
    np.square(error, out=error)
    squares: Floats = np.einsum("...bi,bi->...b", error, importance)
    return squares
