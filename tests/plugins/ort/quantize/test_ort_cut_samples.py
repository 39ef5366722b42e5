"""Samples of one size, and their beginnings, which show what shorter ones do to ranges."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import helper
from ort_models import Array, build, context, random_weight, relative_l2

from optim import Model
from optim.options import parse_options
from optim_plugins.ort.measure.cut_samples import with_beginnings
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic


def _means(folder: Path, size: int | str = "tokens") -> Model:
    """The mean over tokens, and a product of it: of fewer tokens the mean varies more."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["mean", "w"], ["y"], name="product"),
    ]
    return build(folder, nodes, {"w": random_weight(64, 64)}, {"x": ["n", size, 64]}, {"y": ["n", 64]}, opset=13)


def _tokens(*sizes: int) -> list[dict[str, Array]]:
    return [{"x": random_weight(1, size, 64, seed=seed)} for seed, size in enumerate(sizes)]


def _sizes(model: Model, folder: Path, samples: list[dict[str, Array]], *, given: bool = True) -> list[int]:
    asked = replace(context(folder, samples), feeds_given=given)
    return [feeds["x"].shape[1] for feeds in with_beginnings(model, asked).samples()]


def test_ranges_of_samples_of_one_size_hold_for_shorter_ones(tmp_path: Path) -> None:
    model, samples, short = _means(tmp_path), _tokens(*[256] * 8), _tokens(*[16] * 20)[-1]
    options = parse_options(QuantizeStatic, {"calibration": "foreseen"})
    alone = replace(context(tmp_path, samples), feeds_given=False)
    before, after = (QuantizeStatic().apply(model, options, one) for one in (alone, context(tmp_path, samples)))
    assert relative_l2(model, after.model, short) < 0.06 < 0.3 < relative_l2(model, before.model, short)


def test_each_sample_has_a_part_of_it_beside_it(tmp_path: Path) -> None:
    model = _means(tmp_path)
    assert _sizes(model, tmp_path, _tokens(64, 64, 80, 64, 64)) == [64, 64, 80, 64, 64, 32, 16, 10, 4, 32]


@pytest.mark.parametrize("sizes", [(64,), (16, 64), (6, 7)])
def test_one_sample_others_of_several_sizes_and_tiny_ones_stay_alone(sizes: tuple[int, ...], tmp_path: Path) -> None:
    assert _sizes(_means(tmp_path), tmp_path, _tokens(*sizes)) == list(sizes)


def test_made_up_samples_and_fixed_sizes_stay_alone(tmp_path: Path) -> None:
    samples = _tokens(64, 64)
    assert _sizes(_means(tmp_path), tmp_path, samples, given=False) == [64, 64]
    assert _sizes(_means(tmp_path, 64), tmp_path, samples) == [64, 64]


@pytest.mark.parametrize("shape", [["n", "height", "width"], ["n", 3, "height", "height"]])
def test_what_has_two_free_sizes_or_is_a_picture_stays_alone(shape: list[str | int], tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], {}, {"x": shape}, {"y": shape})
    samples = [{"x": np.ones([64] * len(shape), np.float32)} for _ in range(2)]
    assert len(_sizes(model, tmp_path, samples)) == 2


def test_a_size_that_the_model_does_not_take_or_that_is_not_finite_is_left_out(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "rows"], ["r"]),  # a multiple of 16 rows
        helper.make_node("ReduceSum", ["r", "axes"], ["s"], keepdims=0),
        helper.make_node("Sqrt", ["s"], ["y"]),  # of the beginning of the third: below zero
    ]
    extra = {"rows": np.array([-1, 16 * 4], np.int64), "axes": np.array([0, 1], np.int64)}
    model = build(tmp_path, nodes, extra, {"x": ["n", "tokens", 4]}, {"y": []}, opset=13)
    samples = [{"x": np.ones((1, 64, 4), np.float32)} for _ in range(5)]
    samples[4]["x"][:, :32] = -0.5
    assert _sizes(model, tmp_path, samples) == [64] * 5 + [32, 16]
