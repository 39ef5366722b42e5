"""``ort.quantize-dynamic``, and the integer weights it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from ort_models import (
    CPU,
    EXPORTS,
    apply,
    build,
    context,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    proto,
    random_weight,
    relative_l2,
    run,
)
from rounding import narrowed, rounding

from optim import Model
from optim.options import parse_options
from optim_plugins.ort.measure.channel_means import believed_mean
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.dynamic.quantize_dynamic_options import QuantizeDynamicOptions
from optim_plugins.ort.quantize.integer_weights import quantize_weight

_FEEDS = {"x": random_weight(7, 64, seed=9)}
_CLOSE = rounding()
"""Drift of one product of normal numbers."""


def _model(folder: Path, nodes: list[Any], weights: dict[str, Any], outputs: int = 96) -> Model:
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", outputs]})


def _product(folder: Path) -> Model:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    return _model(folder, [node], {"w": random_weight(64, 96)})


def test_a_product_alone_with_its_input_becomes_one_operator(tmp_path: Path) -> None:
    model = _product(tmp_path)
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul"]
    assert result.counts == {"products quantized": 1, "products kept": 0, **narrowed(1)}
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert 1e-4 < relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_products_of_one_input_share_its_quantization(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", w], [f"p{w}"], name=w) for w in "uvw"]
    nodes += [helper.make_node("Sum", ["pu", "pv", "pw"], ["y"])]
    model = _model(tmp_path, nodes, {w: random_weight(64, 96, seed=i) for i, w in enumerate("uvw")})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model).count("DynamicQuantizeLinear") == 1
    assert operators(result.model).count("MatMulIntegerToFloat") == 3
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_a_bias_goes_into_the_product(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["b", "p"], ["y"])]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 96), "b": random_weight(96)})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul"]
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


@pytest.mark.parametrize("shape", [(1,), (), (7, 96), (1, 96)])
def test_an_addend_of_another_shape_stays_an_add(shape: tuple[int, ...], tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 96), "b": random_weight(*shape)})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul", "Add"]
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_a_bias_of_a_single_column_is_not_taken_for_one_of_many(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])]
    weights = {"w": random_weight(4096, 1), "b": random_weight(96)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 4096]}, {"y": ["n", 96]})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul", "Add"]
    assert relative_l2(model, result.model, {"x": random_weight(3, 4096)}) < _CLOSE


def test_a_product_that_others_read_too_keeps_its_bias_apart(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Mul", ["s", "p"], ["y"]),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 96), "b": random_weight(96)})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul", "Add", "Mul"]


@pytest.mark.parametrize(("activation", "left"), [("BiasGelu", "Gelu"), ("FastGelu", "FastGelu")])
def test_a_bias_that_a_fusion_moved_into_an_activation_comes_back(activation: str, left: str, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="up"),
        helper.make_node(activation, ["p", "b"], ["g"], domain="com.microsoft"),
        helper.make_node("MatMul", ["g", "v"], ["y"], name="down"),
    ]
    weights = {"w": random_weight(64, 96), "b": random_weight(96), "v": random_weight(96, 96)}
    model = _model(tmp_path, nodes, weights)
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul", left, "DynamicQuantizeMatMul"]
    assert relative_l2(model, result.model, _FEEDS) < rounding(products=2)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [None, (96,), (7, 96)])
def test_a_gemm_is_quantized_as_it_is(transposed: int, bias: tuple[int, ...] | None, tmp_path: Path) -> None:
    weights = {"w": random_weight(96, 64) if transposed else random_weight(64, 96)}
    if bias is not None:
        weights["b"] = random_weight(*bias)
    node = helper.make_node("Gemm", ["x", *weights], ["y"], transB=transposed)
    model = _model(tmp_path, [node], weights)
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul", *(["Add"] if bias == (7, 96) else [])]
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_what_a_gemm_adds_may_come_from_another_quantized_product(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["c"], name="one"),
        helper.make_node("Gemm", ["x", "w", "c"], ["y"], name="two"),
    ]
    model = _model(tmp_path, nodes, {"u": random_weight(64, 96), "w": random_weight(64, 96, seed=1)})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert result.counts["products quantized"] == 2
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_a_head_tied_to_the_embedding_is_reached_and_the_embedding_keeps_its_own(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["e", "i"], ["g"]),
        helper.make_node("Add", ["x", "g"], ["h"]),
        helper.make_node("Transpose", ["e"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "t"], ["y"]),
    ]
    model = _model(tmp_path, nodes, {"e": random_weight(300, 64), "i": np.array(5, np.int64)}, 300)
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["Gather", "Add", "DynamicQuantizeMatMul"]
    shapes = {value.name: tuple(value.dims) for value in proto(result.model).graph.initializer}
    assert shapes["e"] == (300, 64)
    assert shapes["e_quantized"] == (64, 300)
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_fused_products_with_a_transposed_weight_are_reached(tmp_path: Path) -> None:
    node = helper.make_node("FusedMatMul", ["x", "w"], ["y"], transB=1, domain="com.microsoft")
    model = _model(tmp_path, [node], {"w": random_weight(96, 64)})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert operators(result.model) == ["DynamicQuantizeMatMul"]
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE
    scaled = helper.make_node("FusedMatMul", ["x", "w"], ["y"], transB=1, alpha=0.5, domain="com.microsoft")
    assert not QuantizeDynamic().applicable(_model(tmp_path, [scaled], {"w": random_weight(96, 64)}), CPU)


def test_names_of_nodes_to_keep_stay_float(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="two"),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64), "v": random_weight(64, 96)})
    result = apply(QuantizeDynamic, model, tmp_path, keep=("one", "three"))
    assert operators(result.model) == ["MatMul", "DynamicQuantizeMatMul"]
    assert result.counts == {"products quantized": 1, "products kept": 1, **narrowed(1)}
    assert result.notes == ("keep names no quantizable node: three",)
    everything = apply(QuantizeDynamic, model, tmp_path, keep=("one", "two"))
    assert not everything.changed
    assert everything.model is model
    assert everything.notes == ("no product is left to quantize",)


def test_a_product_without_a_name_is_kept_by_that_of_its_output(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["first"]), helper.make_node("MatMul", ["first", "w"], ["y"])]
    model = build(tmp_path, nodes, {"w": random_weight(64, 64)}, {"x": ["n", 64]}, {"y": ["n", 64]})
    names = QuantizeDynamic().keepable(model, QuantizeDynamicOptions())
    result = apply(QuantizeDynamic, model, tmp_path, keep=names[:1])
    assert names == ["first", "y"]
    assert sorted(operators(result.model)) == ["DynamicQuantizeMatMul", "MatMul"]


def test_an_opset_that_cannot_quantize_while_running_is_declined_with_its_reason(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = build(tmp_path, [node], {"w": random_weight(64, 64)}, {"x": [1, 64]}, {"y": [1, 64]}, opset=10)
    reason = "the model has opset 10; DynamicQuantizeLinear came with opset 11"
    assert QuantizeDynamic().applicable(model, CPU).reason == reason
    assert apply(QuantizeDynamic, model, tmp_path).notes == (reason,)


def test_a_model_without_a_large_constant_weight_is_declined_with_its_reason(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = build(tmp_path, [node], {"w": random_weight(64, 63)}, {"x": [1, 64]}, {"y": [1, 63]})
    applicable = QuantizeDynamic().applicable(model, CPU)
    assert not applicable
    assert applicable.reason == "no MatMul or Gemm has a constant float32 weight of 4096 elements, and no LSTM is large"


def test_a_weight_that_is_not_finite_stays_float_and_is_named(tmp_path: Path) -> None:
    broken = random_weight(64, 96)
    broken[3, 5] = np.inf
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")], {"w": broken})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert not result.changed
    assert "left in float, its weight is not finite: dense" in result.notes


def test_a_second_time_there_is_nothing_left(tmp_path: Path) -> None:
    result = apply(QuantizeDynamic, _product(tmp_path), tmp_path)
    assert not QuantizeDynamic().applicable(result.model, CPU)


def test_the_input_model_is_not_touched(tmp_path: Path) -> None:
    model = _product(tmp_path)
    files = {path: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    apply(QuantizeDynamic, model, tmp_path)
    assert {path: path.read_bytes() for path in files} == files


def test_float_weights_that_nobody_reads_any_more_are_dropped_even_if_they_were_inputs(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = build(
        tmp_path, [node], {"w": random_weight(64, 96)}, {"x": ["n", 64]}, {"y": ["n", 96]}, weights_are_inputs=True
    )
    graph = proto(apply(QuantizeDynamic, model, tmp_path).model).graph
    assert [value.name for value in graph.input] == ["x"]
    assert "w" not in {value.name for value in graph.initializer}


def test_products_in_branches_are_quantized_in_their_own_scope(tmp_path: Path) -> None:
    def branch(seed: int) -> Any:
        tensor = numpy_helper.from_array(random_weight(64, 64, seed=seed), "w")
        nodes = [
            helper.make_node("MatMul", ["h", "w"], ["p"], name=f"p{seed}"),
            helper.make_node("MatMul", ["h", "w"], ["q"], name=f"q{seed}"),
            helper.make_node("Add", ["p", "q"], ["r"]),
        ]
        return helper.make_graph(nodes, f"b{seed}", [], [helper.make_tensor_value_info("r", 1, None)], [tensor])

    nodes = [
        helper.make_node("Tanh", ["x"], ["h"]),
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2)),
    ]
    model = build(tmp_path, nodes, {"zero": np.array(0, np.float32)}, {"x": ["n", 64]}, {"y": ["n", 64]})
    result = apply(QuantizeDynamic, model, tmp_path)
    assert result.counts["products quantized"] == 4
    for sign in (1, -1):
        feeds = {"x": sign * np.abs(random_weight(5, 64, seed=3))}
        assert 1e-4 < relative_l2(model, result.model, feeds) < _CLOSE


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("per_channel", [True, False])
def test_exports_stay_near(name: str, per_channel: bool, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    result = apply(QuantizeDynamic, model, tmp_path, per_channel=per_channel)
    products = {"bert": 13, "gpt2": 9, "llama": 11, "convnet": 1}[name.partition(".")[0]]
    assert result.counts["products quantized"] == products
    assert names_and_shapes(result.model) == names_and_shapes(model)
    coarser = 1 if per_channel else 2.5  # one scale for a whole weight: the largest of all columns
    assert 1e-4 < relative_l2(model, result.model, feeds_for(name)) < coarser * rounding(products)


def test_auto_smooths_where_samples_have_rows_enough(tmp_path: Path) -> None:
    model = export("bert.dynamo", tmp_path)
    for length, tried in ((1, [(0.0, 8)]), (20, [(0.0, 8), (0.8, 8), (0.6, 8), (0.0, 16)])):
        asked = context(tmp_path, [feeds_for("bert.dynamo", batch=1, sequence=length)])
        options = list(QuantizeDynamic().candidates(model, CPU, asked))
        assert [(one.smoothing, one.activation_bits) for one in options] == tried
        assert [one.scale_rows for one in options] == [one.smoothing == 0.6 for one in options]
        assert all(one.per_channel and one.correct_bias == (length > 1) for one in options)
        assert len({one.reduce_range for one in options}) == 1


@pytest.mark.parametrize("options", [{}, {"activation_bits": 16}, {"smoothing": 0.8}])
def test_correcting_the_bias_takes_off_what_rounding_adds_on_samples_that_it_did_not_see(
    options: dict[str, Any], tmp_path: Path
) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["p"], name="first"),
        helper.make_node("Add", ["p", "b"], ["q"]),
        helper.make_node("MatMul", ["x", "v"], ["r"], name="without_bias"),
        helper.make_node("Add", ["q", "r"], ["y"]),
    ]
    weights = {"u": random_weight(64, 96), "v": random_weight(64, 96, seed=1), "b": random_weight(96, seed=2)}
    model = _model(tmp_path, nodes, weights)
    shift = 3 * random_weight(64, seed=3)
    samples = [{"x": random_weight(40, 64, seed=seed) + shift} for seed in range(4, 14)]

    def mean_error(**more: Any) -> float:
        result = apply(QuantizeDynamic, model, tmp_path, samples[:6], **options, **more)
        assert result.counts.get("biases corrected", 0) == 2 * len(more)
        errors = [run(result.model, one)["y"] - run(model, one)["y"] for one in samples[6:]]
        return float(np.abs(np.concatenate(errors).mean(axis=0)).mean())

    assert mean_error(correct_bias=True) < 0.3 * mean_error()


def test_what_one_application_measured_serves_the_next(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", [a, w], [b], name=w) for a, w, b in (("x", "u", "p"), ("p", "v", "y"))]
    model = _model(tmp_path, nodes, {"u": random_weight(64, 96), "v": random_weight(96, 96, seed=1)})
    given, asked = context(tmp_path, [{"x": random_weight(40, 64, seed=seed)} for seed in range(3)]), []
    samples = given.samples
    given.samples = lambda: asked.append(1) or samples()  # type: ignore[func-returns-value]
    results = []
    for keep in ((), ("v",), ()):
        options = parse_options(QuantizeDynamic, {"smoothing": 0.8, "correct_bias": True, "keep": keep})
        results.append(QuantizeDynamic().apply(model, options, given).model.digest)
        assert len(asked) == 2, "largest numbers, and means"
    assert results[0] == results[2] != results[1]


@pytest.mark.parametrize("opset", [13, 18])
def test_a_row_of_huge_values_leaves_the_others_their_precision(opset: int, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"), helper.make_node("Add", ["p", "b"], ["y"])]
    weights = {"w": random_weight(64, 96), "b": random_weight(96, seed=2)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 96]}, opset=opset)
    x = random_weight(7, 64, seed=9)
    x[3] *= 300
    x[5] = 0
    errors = {}
    for options in ({}, {"scale_rows": True}, {"scale_rows": True, "finer": ("dense",)}):
        result = apply(QuantizeDynamic, model, tmp_path, **options)
        assert result.counts.get("rows scaled", 0) == (list(options) == ["scale_rows"])
        got, expected = run(result.model, {"x": x})["y"], run(model, {"x": x})["y"]
        assert np.array_equal(got[5], weights["b"])
        ordinary = [0, 1, 2, 4, 6]
        errors[len(options)] = np.linalg.norm((got - expected)[ordinary]) / np.linalg.norm(expected[ordinary])
    assert errors[1] < _CLOSE < 0.1 * errors[0]
    assert names_and_shapes(result.model) == names_and_shapes(model)


def test_rows_that_several_products_read_have_one_scale(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", w], [f"p{w}"], name=w) for w in "uv"]
    nodes += [helper.make_node("Add", ["pu", "pv"], ["y"])]
    model = _model(tmp_path, nodes, {w: random_weight(64, 96, seed=i) for i, w in enumerate("uv")})
    result = apply(QuantizeDynamic, model, tmp_path, scale_rows=True)
    assert result.counts["rows scaled"] == 0
    assert operators(result.model).count("DynamicQuantizeLinear") == 1


def test_a_mean_that_samples_do_not_agree_on_is_not_believed() -> None:
    agreed = believed_mean([np.array([2.0, 0.0, np.nan]), np.array([2.0, 0.0, 1.0])])
    assert agreed[:2] == pytest.approx([2.0, 0.0])
    assert np.isnan(agreed[2])
    rng = np.random.default_rng(0)
    noise = believed_mean(list(rng.standard_normal((4, 1000))))
    assert np.square(noise).mean() < 0.6 * 0.25  # a plain mean of four has 0.25
    assert believed_mean([np.array([3.0])]) == pytest.approx([3.0])


@pytest.mark.parametrize("transposed", [False, True])
def test_integers_times_scale_give_the_weight_to_half_a_step(transposed: bool) -> None:
    weight = random_weight(1500, 800)
    read = weight.T if transposed else weight
    columns = quantize_weight(weight, transposed=transposed)
    assert columns is not None
    assert columns.integers.shape == read.shape
    assert columns.scale.shape == read.shape[1:]
    assert (np.abs(columns.integers * columns.scale - read) <= columns.scale * 0.501).all()
    assert np.abs(columns.integers).max() == 127
    one = quantize_weight(weight, transposed=transposed, per_channel=False)
    assert one is not None
    assert one.scale.shape == ()
    assert (np.abs(one.integers * one.scale - read) <= one.scale * 0.501).all()


def test_a_reduced_range_uses_seven_bits() -> None:
    quantized = quantize_weight(random_weight(64, 64), reduce_range=True)
    assert quantized is not None
    assert np.abs(quantized.integers).max() == 63


def test_a_column_of_zeros_stays_zero() -> None:
    weight = random_weight(64, 64)
    weight[:, 7] = 0
    quantized = quantize_weight(weight)
    assert quantized is not None
    assert not quantized.integers[:, 7].any()
    assert np.isfinite(quantized.scale).all()
