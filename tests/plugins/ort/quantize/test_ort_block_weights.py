"""Weights in blocks of few bits: rounding, packing, GPTQ."""

from __future__ import annotations

import numpy as np
import pytest
from ort_models import Array, random_weight

from optim_plugins.ort.quantize.weights.block_graph import round_weight
from optim_plugins.ort.quantize.weights.block_plan import Rounding
from optim_plugins.ort.quantize.weights.block_rounding import METHODS
from optim_plugins.ort.quantize.weights.block_weights import BlockWeight, Grid, blocked, pack
from optim_plugins.ort.quantize.weights.gptq import Inputs, gptq


def _unpacked(packed: Array, bits: int) -> Array:
    each = 8 // bits
    parts = [(packed >> (place * bits)) & ((1 << bits) - 1) for place in range(each)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def _restored(weight: BlockWeight, grid: Grid, rows: int) -> Array:
    """What onnxruntime documents, computed another way: [N, K]."""
    integers = _unpacked(weight.packed, grid.bits).astype(np.float32)
    blocks = weight.scale.shape[1]
    if weight.zero_points is None:
        zero = np.full(weight.scale.shape, grid.middle, np.float32)
    elif weight.zero_points.dtype == np.float32:
        zero = weight.zero_points
    else:
        zero = _unpacked(weight.zero_points, grid.bits)[:, :blocks].astype(np.float32)
    return ((integers - zero[..., None]) * weight.scale[..., None]).reshape(len(integers), -1)[:, :rows]


def _error(columns: Array, rounding: Rounding, inputs: Inputs | None = None) -> float:
    weight = round_weight(columns, rounding, inputs)
    assert weight is not None
    restored = _restored(weight, rounding.grid, columns.shape[1])
    return float(np.linalg.norm(restored - columns) / np.linalg.norm(columns))


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packing_puts_the_first_integer_in_the_lowest_bits(bits: int) -> None:
    integers = np.random.default_rng(0).integers(0, 1 << bits, (3, 2, 16)).astype(np.uint8)
    packed = pack(integers, bits)
    assert packed.shape == (3, 2, 16 * bits // 8)
    assert (_unpacked(packed, bits) == integers).all()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize(("bits", "most"), [(2, 0.51), (4, 0.11), (8, 0.0068)])
@pytest.mark.parametrize("block", [16, 128])
def test_every_block_is_rounded_over_its_own_range(bits: int, most: float, block: int, symmetric: bool) -> None:
    columns = random_weight(24, 200) * np.logspace(-3, 3, 24, dtype=np.float32)[:, None]
    assert _error(columns, Rounding(Grid(bits, block, symmetric), "rtn", 4)) < most


@pytest.mark.parametrize("symmetric", [True, False])
def test_k_quant_is_closer_than_nearest(symmetric: bool) -> None:
    columns, grid = random_weight(64, 256), Grid(4, 32, symmetric)
    nearest, searched = (_error(columns, Rounding(grid, method, 4)) for method in ("rtn", "k-quant"))
    assert searched < 0.97 * nearest


def test_hqq_gives_fractional_zero_points_that_make_the_mean_error_smaller() -> None:
    rng = np.random.default_rng(0)
    columns = rng.standard_t(3, (32, 256)).astype(np.float32)
    blocks, grid = blocked(columns, Grid(4, 64, False)), Grid(4, 64, False)
    errors = {name: np.abs(METHODS[name](blocks, grid).restored() - blocks).mean() for name in ("rtn", "hqq")}
    weight = round_weight(columns, Rounding(grid, "hqq", 4))
    assert errors["hqq"] < errors["rtn"]
    assert weight is not None
    assert weight.zero_points is not None
    assert weight.zero_points.dtype == np.float32


def test_zeros_and_constants_are_exact() -> None:
    columns = np.zeros((2, 64), np.float32)
    columns[1] = 0.25
    for symmetric in (True, False):
        assert _error(columns, Rounding(Grid(4, 32, symmetric), "rtn", 4)) < 1e-6


def test_a_weight_that_is_not_finite_is_refused() -> None:
    columns = random_weight(4, 64)
    columns[3, 5] = np.nan
    assert round_weight(columns, Rounding(Grid(4, 32, True), "rtn", 4)) is None


def test_gptq_brings_products_of_what_was_seen_closer() -> None:
    rng = np.random.default_rng(0)
    columns = random_weight(48, 100)  # the last block of 32 is filled up
    seen = (rng.standard_normal((400, 20)) @ rng.standard_normal((20, 100))).astype(np.float32)
    seen += 0.1 * rng.standard_normal(seen.shape).astype(np.float32)
    grid = Grid(4, 32, False)
    made = round_weight(columns, Rounding(grid, "gptq", 4), Inputs(seen.T @ seen, len(seen)))
    plain = round_weight(columns, Rounding(grid, "k-quant", 4))
    assert made is not None
    assert plain is not None
    errors = [np.linalg.norm(seen @ (_restored(one, grid, 100) - columns).T) for one in (made, plain)]
    assert errors[0] < 0.6 * errors[1]


def test_gptq_of_channels_that_never_were_seen_is_finite() -> None:
    squares = np.zeros((64, 64), np.float32)
    squares[:8, :8] = np.eye(8) * 5
    ((_, rounded),) = gptq(random_weight(8, 64), Inputs(squares, 64), Grid(4, 32, True))
    assert np.isfinite(rounded.restored()).all()


def test_too_few_rows_do_not_suffice() -> None:
    assert not Inputs(np.eye(64, dtype=np.float32), 8).suffice
    assert Inputs(np.eye(64, dtype=np.float32), 32).suffice
