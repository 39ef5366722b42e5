"""Weights in blocks of few bits: rounding, packing, GPTQ."""

from __future__ import annotations

import numpy as np
import pytest
from ort_models import Array, random_weight

from optim_plugins.ort.quantize.weights.block_graph import round_weight
from optim_plugins.ort.quantize.weights.block_plan import Rounding
from optim_plugins.ort.quantize.weights.block_rounding import METHODS
from optim_plugins.ort.quantize.weights.block_weights import BlockWeight, Grid, blocked, pack
from optim_plugins.ort.quantize.weights.gptq import gptq, orders
from optim_plugins.ort.quantize.weights.seen_inputs import Inputs, parts


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


def _error(columns: Array, rounding: Rounding) -> float:
    weight = round_weight(columns, rounding)
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


def _seen(rows: int, channels: int, directions: int) -> Array:
    """Inputs that depend on each other."""
    rng = np.random.default_rng(0)
    seen = (rng.standard_normal((rows, directions)) @ rng.standard_normal((directions, channels))).astype(np.float32)
    return seen + 0.1 * rng.standard_normal(seen.shape).astype(np.float32)


def _inputs(seen: Array) -> Inputs:
    return Inputs(
        (seen**2).sum(axis=0), tuple(seen[:, part].T @ seen[:, part] for part in parts(seen.shape[1])), len(seen)
    )


def _error_of_outputs(columns: Array, method: str, inputs: Inputs, seen: Array) -> float:
    grid = Grid(4, 32, False)
    made = round_weight(columns, Rounding(grid, method, 4), inputs, orders(inputs))
    assert made is not None
    return float(np.linalg.norm(seen @ (_restored(made, grid, columns.shape[1]) - columns).T))


def test_gptq_brings_products_of_what_was_seen_closer() -> None:
    columns, seen = random_weight(48, 100), _seen(400, 100, 20)  # the last block of 32 is filled up
    errors = {name: _error_of_outputs(columns, name, _inputs(seen), seen) for name in ("k-quant", "gptq")}
    assert errors["gptq"] < 0.6 * errors["k-quant"]


def test_inputs_in_several_parts_are_made_up_for_within_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim_plugins.ort.quantize.weights.seen_inputs.PART", 64)
    columns, seen = random_weight(48, 160), _seen(400, 160, 20)
    assert [len(part) for part in _inputs(seen).products] == [64, 64, 32]
    errors = {name: _error_of_outputs(columns, name, _inputs(seen), seen) for name in ("k-quant", "gptq")}
    assert errors["gptq"] < 0.75 * errors["k-quant"]


def test_gptq_of_few_rows_does_not_take_them_for_all_there_is() -> None:
    columns, seen = random_weight(48, 128), _seen(4000, 128, 100)
    few = _inputs(seen[:40])
    trusted = Inputs(few.squares * 1000, tuple(part * 1000 for part in few.products), few.rows * 1000)
    drawn, taken = (_error_of_outputs(columns, "gptq", one, seen[40:]) for one in (few, trusted))
    assert drawn < 0.95 * taken


def test_scale_estimation_counts_errors_by_how_large_inputs_are() -> None:
    sizes = np.random.default_rng(0).permutation(np.logspace(-1, 1, 96, dtype=np.float32))
    columns, seen = random_weight(48, 96), random_weight(200, 96) * sizes
    errors = {name: _error_of_outputs(columns, name, _inputs(seen), seen) for name in ("k-quant", "scale-estimation")}
    assert errors["scale-estimation"] < 0.9 * errors["k-quant"]


def test_gptq_of_channels_that_never_were_seen_is_finite() -> None:
    squares = np.zeros((64, 64), np.float32)
    squares[:8, :8] = np.eye(8) * 5
    inputs = Inputs(np.diag(squares), (squares,), 64)
    ((_, rounded),) = gptq(random_weight(8, 64), inputs.importance, orders(inputs), Grid(4, 32, True))
    assert np.isfinite(rounded.restored()).all()
