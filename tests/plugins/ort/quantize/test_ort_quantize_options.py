"""Options of the quantizations: which nodes they choose, and what they write; each says what it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from ort_models import apply, build, conv_weights, operators, proto, random_weight, relative_l2

from optim import Model, OptimError
from optim.options import parse_options
from optim_plugins.ort.measure.integer_ranges import Range, average_range
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.integer_weights import IntegerGrid, quantize_weight
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights

_ROWS = [{"x": random_weight(40, 64, seed=seed)} for seed in range(3)]
_FEEDS = {"x": random_weight(7, 64, seed=9)}
_PASSES = pytest.mark.parametrize("quantization", [QuantizeDynamic, QuantizeStatic, QuantizeWeights])


def _chain(folder: Path) -> Model:
    """A MatMul, a Gemm, and a product of two activations."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        helper.make_node("Gemm", ["p", "v"], ["q"], name="two"),
        helper.make_node("Transpose", ["p"], ["t"], name="turned"),
        helper.make_node("MatMul", ["q", "t"], ["y"], name="scores"),
    ]
    weights = {"w": random_weight(64, 64) / 8, "v": random_weight(64, 64) / 8}
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", "n"]})


def _two_convolutions(folder: Path) -> Model:
    def conv(source: str, weight: str, result: str) -> Any:
        return helper.make_node("Conv", [source, weight, f"{weight}_bias"], [result], name=result, pads=[1, 1, 1, 1])

    nodes = [conv("x", "a", "a1"), conv("x", "b", "b1"), helper.make_node("Add", ["a1", "b1"], ["y"], name="sum")]
    weights = conv_weights(a=(8, 3, 3, 3), b=(8, 3, 3, 3))
    return build(folder, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 8, 12, 12]})


def _stored(model: Model) -> dict[str, Any]:
    """Weights by name."""
    return {one.name: numpy_helper.to_array(one) for one in onnx.load(model.path).graph.initializer}


def _images() -> list[dict[str, Any]]:
    return [{"x": random_weight(2, 3, 12, 12, seed=seed)} for seed in range(3)]


@_PASSES
@pytest.mark.parametrize("options", [{"only": ("two",)}, {"operators": ("Gemm",)}, {"keep": ("one",)}])
def test_nodes_are_chosen_by_name_and_by_operator(quantization: Any, options: Any, tmp_path: Path) -> None:
    model = _chain(tmp_path)
    result = apply(quantization, model, tmp_path, _ROWS, **options)
    assert result.counts["products quantized"] == 1
    kept = {node.name for node in proto(result.model).graph.node}
    assert {"one", "scores"} <= kept
    assert "two" not in kept


@_PASSES
def test_a_name_in_only_that_no_node_has_is_told(quantization: Any, tmp_path: Path) -> None:
    result = apply(quantization, _chain(tmp_path), tmp_path, _ROWS, only=("one", "three"))
    assert "only names no quantizable node: three" in result.notes


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("reduce_range", [False, True])
def test_an_asymmetric_weight_uses_all_integers_for_its_own_range(
    dtype: Any, reduce_range: bool, transposed: bool
) -> None:
    weight = np.abs(random_weight(64, 48)) + 1.0
    found = quantize_weight(
        weight.T if transposed else weight,
        transposed=transposed,
        grid=IntegerGrid(dtype, symmetric=False),
        reduce_range=reduce_range,
    )
    assert found is not None
    assert found.integers.dtype == found.zero.dtype == dtype
    restored = (found.integers.astype(np.float32) - found.zero) * found.scale
    assert np.abs(restored - weight).max() <= 0.51 * found.scale.max()
    steps = 127 if reduce_range else 255
    np.testing.assert_allclose(found.scale, weight.max(axis=0) / steps, rtol=1e-6)
    assert int(found.integers.max()) - int(found.integers.min()) <= steps


@pytest.mark.parametrize("weights", ["int8", "uint8"])
def test_weights_that_are_not_centered_are_nearer_without_symmetry(weights: str, tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    positive = np.abs(random_weight(64, 96)) + 1.0
    model = build(tmp_path, [node], {"w": positive}, {"x": ["n", 64]}, {"y": ["n", 96]})
    found = {
        symmetric: apply(QuantizeDynamic, model, tmp_path, weights=weights, symmetric=symmetric, activation_bits=16)
        for symmetric in (True, False)
    }
    stored = _stored(found[False].model)
    assert stored["w_quantized"].dtype == weights
    assert relative_l2(model, found[False].model, _FEEDS) < 0.7 * relative_l2(model, found[True].model, _FEEDS)


@pytest.mark.parametrize("symmetric", [True, False])
def test_unsigned_weights_stand_for_the_same_numbers(symmetric: bool, tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    model = build(tmp_path, [node], {"w": random_weight(64, 96)}, {"x": ["n", 64]}, {"y": ["n", 96]})
    result = apply(QuantizeDynamic, model, tmp_path, weights="uint8", symmetric=symmetric)
    assert relative_l2(model, result.model, _FEEDS) < 0.02


def test_a_range_that_is_given_replaces_what_the_samples_show(tmp_path: Path) -> None:
    model = _chain(tmp_path)
    given = apply(QuantizeStatic, model, tmp_path, _ROWS, ranges={"x": (-8.0, 8.0)}, only=("one",))
    stored = _stored(given.model)
    assert float(stored["x_scale"]) == pytest.approx(16 / 255)
    with pytest.raises(OptimError, match="there is no tensor 'xx'") as refused:
        apply(QuantizeStatic, model, tmp_path, _ROWS, ranges={"xx": (0.0, 1.0)})
    assert refused.value.reference == "unknown-tensor"


def test_an_average_of_ranges_is_narrower_than_all_of_them() -> None:
    assert average_range([Range(-1.0, 2.0), Range(-3.0, 4.0)]) == Range(-2.0, 3.0)


def test_the_average_is_what_calibration_uses(tmp_path: Path) -> None:
    samples = [{"x": random_weight(40, 64, seed=seed) * (seed + 1)} for seed in range(3)]
    scales = {}
    for calibration in ("minmax", "average"):
        made = apply(QuantizeStatic, _chain(tmp_path), tmp_path, samples, calibration=calibration, only=("one",))
        stored = _stored(made.model)
        scales[calibration] = float(stored["x_scale"])
    assert scales["average"] < 0.8 * scales["minmax"]


def test_a_product_of_two_activations_becomes_one_of_integers_if_asked_for(tmp_path: Path) -> None:
    model = _chain(tmp_path)
    plain = apply(QuantizeStatic, model, tmp_path, _ROWS, format="qdq")
    both = apply(QuantizeStatic, model, tmp_path, _ROWS, format="qdq", activation_products=True)
    assert operators(both.model).count("QuantizeLinear") > operators(plain.model).count("QuantizeLinear")
    scores = next(node for node in proto(both.model).graph.node if node.name == "scores")
    makers = {output: node.op_type for node in proto(both.model).graph.node for output in node.output}
    assert [makers[name] for name in scores.input] == ["DequantizeLinear", "DequantizeLinear"]
    assert relative_l2(model, both.model, _FEEDS) < 0.1


@pytest.mark.parametrize("made", [_chain, _two_convolutions])
def test_activations_alone_are_quantized(made: Any, tmp_path: Path) -> None:
    model, samples = made(tmp_path), _ROWS if made is _chain else _images()
    floats = {"weights": "float32", "biases": "float32", "reduce_range": False}
    result = apply(QuantizeStatic, model, tmp_path, samples, format="qdq", **floats)
    assert result.changed
    types = {one.data_type for one in proto(result.model).graph.initializer if one.dims}
    assert types == {1}  # float
    assert operators(result.model).count("QuantizeLinear") >= 1
    assert 0 < relative_l2(model, result.model, samples[0]) < 0.05


@pytest.mark.parametrize("made", [_chain, _two_convolutions])
def test_weights_in_float_before_a_pair_are_the_same_numbers(made: Any, tmp_path: Path) -> None:
    model, samples = made(tmp_path), _ROWS if made is _chain else _images()
    plain = apply(QuantizeStatic, model, tmp_path, samples, format="qdq")
    pairs = apply(QuantizeStatic, model, tmp_path, samples, format="qdq", pairs_at_weights=True)
    assert operators(pairs.model).count("QuantizeLinear") == operators(plain.model).count("QuantizeLinear") + 2
    assert relative_l2(plain.model, pairs.model, samples[0]) < 1e-6


def test_each_reader_has_a_pair_of_its_own_if_asked_for(tmp_path: Path) -> None:
    model = _two_convolutions(tmp_path)
    plain = apply(QuantizeStatic, model, tmp_path, _images(), format="qdq")
    apart = apply(QuantizeStatic, model, tmp_path, _images(), format="qdq", pairs_per_reader=True)
    assert operators(apart.model).count("QuantizeLinear") == operators(plain.model).count("QuantizeLinear") + 1
    assert relative_l2(plain.model, apart.model, _images()[0]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pairs_at_weights": True}, "pairs_at_weights needs format qdq"),
        ({"weights": "float32", "biases": "int32", "format": "qdq"}, "need biases float32"),
        ({"weights": "float32"}, "weights float32 needs format qdq"),
        ({"activation_products": True}, "activation_products needs format qdq"),
        ({"ranges": {"x": [2.0, 1.0]}}, "the range of 'x' is [2.0, 1.0]"),
        ({"operators": ["Softmax"]}, "operators"),
    ],
)
def test_static_options_that_do_not_fit_are_refused(options: Any, said: str) -> None:
    with pytest.raises(OptimError) as refused:
        parse_options(QuantizeStatic, options)
    assert said in refused.value.cause
