"""Outliers of activations smoothed before they are rounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from ort_models import Array, apply, build, operators, random_weight, relative_l2
from rounding import rounding

from optim import Model, Pass
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic

_PASSES = pytest.mark.parametrize("pass_class", [QuantizeDynamic, QuantizeStatic], ids=lambda one: one.name)


def _outliers(seed: int) -> dict[str, Array]:
    """Rows whose channels 5 and 40 are a hundred times the others."""
    x = random_weight(60, 64, seed=seed)
    x[:, [5, 40]] *= 100
    return {"x": x}


_SAMPLES = [_outliers(1), _outliers(2)]


def _model(folder: Path, nodes: list[Any], extra: dict[str, Array] | None = None) -> Model:
    weight = random_weight(64, 96)
    weight[[5, 40]] /= 100
    return build(folder, nodes, {"w": weight, **(extra or {})}, {"x": ["n", 64]}, {"y": ["n", 96]})


@_PASSES
def test_a_product_of_outliers_comes_much_closer(pass_class: type[Pass], tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")])
    plain = apply(pass_class, model, tmp_path, _SAMPLES)
    smoothed = apply(pass_class, model, tmp_path, _SAMPLES, smoothing=0.5)
    assert smoothed.counts["inputs smoothed"] == 1
    assert operators(smoothed.model).count("Mul") == 1
    assert relative_l2(model, smoothed.model, _outliers(9)) < 0.1 * relative_l2(model, plain.model, _outliers(9))


@_PASSES
def test_what_was_smoothed_before_is_smoothed_again_under_names_of_its_own(
    pass_class: type[Pass], tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("Mul", ["x", "x_smoothing"], ["x_smoothed"]),
        helper.make_node("MatMul", ["x_smoothed", "v"], ["q"], name="kept"),
        helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    model = _model(tmp_path, nodes, {"x_smoothing": np.full(64, 0.01, np.float32), "v": random_weight(64, 96)})
    result = apply(pass_class, model, tmp_path, _SAMPLES, smoothing=0.5, keep=["kept"])
    assert result.counts["inputs smoothed"] == 1
    assert relative_l2(model, result.model, _outliers(9)) < rounding()


@_PASSES
@pytest.mark.parametrize("operator", ["LayerNormalization", "SkipLayerNormalization", "Mul"])
def test_where_a_normalization_scales_anyway_it_costs_nothing(
    pass_class: type[Pass], operator: str, tmp_path: Path
) -> None:
    gain = np.ones(64, np.float32)
    gain[[5, 40]] = 100
    shift = {} if operator == "Mul" else {"shift": random_weight(64)}
    domain = "com.microsoft" if operator.startswith("Skip") else ""
    inputs = ["x", *(["x"] if domain else []), "gain", *shift]
    nodes = [
        helper.make_node(operator, inputs, ["h"], domain=domain),
        helper.make_node("MatMul", ["h", "w"], ["y"], name="dense"),
    ]
    model = _model(tmp_path, nodes, {"gain": gain, **shift})
    samples = [{"x": random_weight(60, 64, seed=seed)} for seed in range(2)]
    result = apply(pass_class, model, tmp_path, samples, smoothing=0.5)
    assert result.counts["smoothed for nothing"] == 1
    assert operators(result.model).count("Mul") == (operator == "Mul")
    assert relative_l2(model, result.model, {"x": random_weight(60, 64, seed=7)}) < rounding()


@_PASSES
def test_others_that_read_the_normalization_read_it_unchanged(pass_class: type[Pass], tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LayerNormalization", ["x", "gain"], ["h"]),
        helper.make_node("MatMul", ["h", "w"], ["p"], name="dense"),
        helper.make_node("MatMul", ["h", "v"], ["q"], name="kept"),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    gain = np.ones(64, np.float32)
    gain[[5, 40]] = 100
    model = _model(tmp_path, nodes, {"gain": gain, "v": random_weight(64, 96, seed=4) / 50})
    samples = [{"x": random_weight(60, 64, seed=seed)} for seed in range(2)]
    result = apply(pass_class, model, tmp_path, samples, smoothing=0.5, keep=("kept",))
    assert result.counts["smoothed for nothing"] == 0
    assert "MatMul" in operators(result.model)
    assert relative_l2(model, result.model, samples[0]) < rounding()


@_PASSES
def test_a_channel_that_never_was_seen_stays_finite(pass_class: type[Pass], tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")])
    silent = {"x": random_weight(60, 64)}
    silent["x"][:, 3] = 0
    result = apply(pass_class, model, tmp_path, [silent], smoothing=0.8)
    assert relative_l2(model, result.model, silent) < 2 * rounding()


@_PASSES
def test_a_channel_that_was_quiet_may_be_as_large_as_others_later(pass_class: type[Pass], tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")])
    quiet, later = [_outliers(seed) for seed in range(4)], _outliers(9)
    for sample in quiet:
        sample["x"][:, 3] /= 1000
    result = apply(pass_class, model, tmp_path, quiet, smoothing=0.8)
    assert relative_l2(model, result.model, later) < 2 * rounding()


def test_without_samples_nothing_is_smoothed_and_the_counts_say_so(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")])
    result = apply(QuantizeDynamic, model, tmp_path, smoothing=0.5)
    assert result.counts["inputs smoothed"] == 0
    assert relative_l2(model, result.model, {"x": random_weight(5, 64)}) < rounding()


def test_samples_that_are_not_finite_smooth_nothing(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")])
    bad = {"x": np.full((4, 64), np.inf, np.float32)}
    assert apply(QuantizeDynamic, model, tmp_path, [bad], smoothing=0.5).counts["inputs smoothed"] == 0


@_PASSES
def test_what_attention_gives_is_left_as_it_is(pass_class: type[Pass], tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="dense"),
        helper.make_node("Unsqueeze", ["h", "first"], ["rows"]),
        helper.make_node("MultiHeadAttention", ["rows"] * 3, ["a"], domain="com.microsoft", num_heads=4),
        helper.make_node("MatMul", ["a", "out"], ["y"], name="out"),
    ]
    extra = {"out": random_weight(96, 32), "first": np.array([0])}
    model = build(tmp_path, nodes, {"w": random_weight(64, 96), **extra}, {"x": ["n", 64]}, {"y": [1, "n", 32]})
    result = apply(pass_class, model, tmp_path, _SAMPLES, smoothing=0.5)
    assert result.counts["inputs smoothed"] == 1
    assert operators(result.model).count("Mul") == 1
