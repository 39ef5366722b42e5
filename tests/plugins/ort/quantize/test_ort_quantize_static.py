"""``ort.quantize-static``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from ort_models import (
    CPU,
    EXPORTS,
    after_fusion,
    apply,
    build,
    context,
    conv_weights,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    parsed,
    proto,
    random_weight,
    relative_l2,
    run,
)
from rounding import narrowed, rounding

from optim import Model, OptimError
from optim.options import parse_options
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

_IMAGES = [{"x": random_weight(2, 3, 12, 12, seed=seed)} for seed in range(3)]
_FEEDS = {"x": random_weight(2, 3, 12, 12, seed=9)}
_ROWS = [{"x": random_weight(40, 64, seed=seed)} for seed in range(3)]
_CLOSE = rounding(products=2)
"""Drift of two convolutions of normal numbers, one behind the other."""
_FORMATS = pytest.mark.parametrize("written", ["qoperator", "qdq"])


def _conv(source: str, weight: str, result: str, **attributes: Any) -> onnx.NodeProto:
    inputs = [source, weight, f"{weight}_bias"]
    return helper.make_node("Conv", inputs, [result], name=result, **{"pads": [1, 1, 1, 1], **attributes})


def _residual(folder: Path, *, opset: int = 17) -> Model:
    """Two convolutions and a residual sum, pooled, and a Gemm behind them."""
    nodes = [
        _conv("x", "a", "a1"),
        helper.make_node("Relu", ["a1"], ["a2"], name="relu_a"),
        _conv("a2", "b", "b1"),
        helper.make_node("Add", ["b1", "a2"], ["s"], name="sum"),
        helper.make_node("Relu", ["s"], ["r"], name="relu_s"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("Gemm", ["f", "w", "c"], ["y"], name="head"),
    ]
    weights = conv_weights(a=(64, 3, 3, 3), b=(64, 64, 3, 3)) | {"w": random_weight(64, 96) / 8, "c": random_weight(96)}
    return build(folder, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 96]}, opset=opset)


def _product(folder: Path) -> Model:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"), helper.make_node("Add", ["p", "b"], ["y"])]
    weights = {"w": random_weight(64, 96) / 8, "b": random_weight(96)}
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 96]})


@pytest.mark.parametrize("calibration", ["minmax", "foreseen", "mse", "entropy", "percentile"])
@_FORMATS
def test_a_residual_net_stays_in_integers_from_end_to_end(written: str, calibration: str, tmp_path: Path) -> None:
    model = _residual(tmp_path)
    options = {"format": written, "calibration": calibration, "correct_bias": True}
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, **options)
    counts = {"Conv quantized": 2, "products quantized": 1, "carriers quantized": 3}
    assert result.counts == counts | narrowed(3)
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert 1e-4 < relative_l2(model, result.model, _FEEDS) < _CLOSE
    really = after_fusion(result.model)
    assert really["QLinearConv"] == 2
    assert really["QLinearAdd"] == really["QLinearGlobalAveragePool"] == 1
    assert not {"Conv", "Relu", "Gemm"} & set(really)
    assert really["QuantizeLinear"] == 1


def test_both_formats_compute_the_same(tmp_path: Path) -> None:
    model = _residual(tmp_path)
    first, second = (
        run(apply(QuantizeStatic, model, tmp_path, _IMAGES, format=written).model, _FEEDS)["y"]
        for written in ("qoperator", "qdq")
    )
    assert np.allclose(first, second, atol=0.02 * np.abs(first).max())


@_FORMATS
def test_a_product_gets_integers_and_gives_floats(written: str, tmp_path: Path) -> None:
    model = _product(tmp_path)
    result = apply(QuantizeStatic, model, tmp_path, _ROWS, format=written)
    assert relative_l2(model, result.model, _ROWS[0]) < _CLOSE
    assert after_fusion(result.model)["MatMulIntegerToFloat" if written == "qoperator" else "QGemm"] == 1
    if written == "qoperator":
        assert operators(result.model) == ["QuantizeLinear", "MatMulIntegerToFloat"]


@pytest.mark.parametrize("written", ["qoperator", "qdq"])
@pytest.mark.parametrize(("activations", "weights"), [("uint8", "int8"), ("uint8", "uint8"), ("int8", "int8")])
def test_every_pair_of_integers_runs(activations: str, weights: str, written: str, tmp_path: Path) -> None:
    model = _residual(tmp_path)
    options = {"activations": activations, "weights": weights, "format": written}
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, **options)
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


@pytest.mark.parametrize("activations", ["uint16", "int16"])
def test_sixteen_bits_raise_the_opset_and_are_closer(activations: str, tmp_path: Path) -> None:
    model = _residual(tmp_path)
    # without the product: onnxruntime 1.32 computes one whose weights have 8 bits in 8 bits, whatever it is given
    options = {"format": "qdq", "products": False}
    wide = apply(QuantizeStatic, model, tmp_path, _IMAGES, activations=activations, **options)
    narrow = apply(QuantizeStatic, model, tmp_path, _IMAGES, **options)
    assert wide.model.opset[""] == 21
    assert relative_l2(model, wide.model, _FEEDS) < relative_l2(model, narrow.model, _FEEDS)


def test_an_old_opset_is_raised(tmp_path: Path) -> None:
    model = _residual(tmp_path, opset=11)
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, format="qdq")
    assert result.model.opset[""] == 13
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


@_FORMATS
def test_a_bound_of_a_relu_becomes_the_end_of_the_range(written: str, tmp_path: Path) -> None:
    nodes = [_conv("x", "a", "a1"), helper.make_node("Clip", ["a1", "zero", "six"], ["y"])]
    weights = conv_weights(a=(8, 3, 3, 3)) | {"zero": np.array(0, np.float32), "six": np.array(0.5, np.float32)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 8, 12, 12]})
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, format=written)
    outputs = run(result.model, _FEEDS)["y"]
    assert outputs.min() == 0
    assert outputs.max() == pytest.approx(0.5, abs=1e-3)
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


@_FORMATS
def test_depthwise_and_grouped_convolutions(written: str, tmp_path: Path) -> None:
    nodes = [_conv("x", "a", "a1"), _conv("a1", "d", "d1", group=8), _conv("d1", "g", "y", group=2)]
    weights = conv_weights(a=(8, 3, 3, 3), d=(8, 1, 3, 3), g=(4, 4, 3, 3))
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 4, 12, 12]})
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, format=written, correct_bias=True)
    assert result.counts["Conv quantized"] == 3
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


@_FORMATS
def test_every_carrier_has_an_integer_form(written: str, tmp_path: Path) -> None:
    nodes = [
        _conv("x", "a", "c1"),
        helper.make_node("Sigmoid", ["c1"], ["gate"]),
        helper.make_node("LeakyRelu", ["c1"], ["leaky"], alpha=0.1),
        helper.make_node("Mul", ["leaky", "gate"], ["gated"]),
        helper.make_node("MaxPool", ["gated"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("AveragePool", ["gated"], ["v"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Concat", ["m", "v"], ["both"], axis=1),
        helper.make_node("Transpose", ["both"], ["turned"], perm=[0, 1, 3, 2]),
        _conv("turned", "b", "y"),
    ]
    weights = conv_weights(a=(8, 3, 3, 3), b=(4, 16, 3, 3))
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 4, 6, 6]})
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, format=written)
    assert result.counts["carriers quantized"] == 7
    assert relative_l2(model, result.model, _FEEDS) < 2 * _CLOSE
    really = after_fusion(result.model)
    assert really["QuantizeLinear"] == 1
    assert really["DequantizeLinear"] == 1


def test_what_reads_floats_gets_floats(tmp_path: Path) -> None:
    nodes = [
        _conv("x", "a", "a1"),
        helper.make_node("Relu", ["a1"], ["a2"]),
        _conv("a2", "b", "b1"),
        helper.make_node("Softplus", ["a2"], ["e"]),
        helper.make_node("Sub", ["b1", "e"], ["y"]),
    ]
    weights = conv_weights(a=(8, 3, 3, 3), b=(8, 8, 3, 3))
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 8, 12, 12]})
    for written in ("qoperator", "qdq"):
        result = apply(QuantizeStatic, model, tmp_path, _IMAGES, format=written)
        assert relative_l2(model, result.model, _FEEDS) < _CLOSE
        assert after_fusion(result.model)["QLinearConv"] == 2


def test_names_to_keep_stay_float(tmp_path: Path) -> None:
    model = _residual(tmp_path)
    names = QuantizeStatic().keepable(model, QuantizeStaticOptions())
    assert names == ["a1", "b1", "head"]
    for written in ("qoperator", "qdq"):
        result = apply(QuantizeStatic, model, tmp_path, _IMAGES, keep=("b1", "nobody"), format=written)
        assert result.notes[0] == "keep names no quantizable node: nobody"
        assert after_fusion(result.model)["QLinearConv"] == 1
        assert relative_l2(model, result.model, _FEEDS) < _CLOSE
    nothing = apply(QuantizeStatic, model, tmp_path, _IMAGES, keep=tuple(names))
    assert not nothing.changed


def test_products_can_be_left_alone(tmp_path: Path) -> None:
    result = apply(QuantizeStatic, _residual(tmp_path), tmp_path, _IMAGES, products=False)
    assert result.counts["products quantized"] == 0
    assert "Gemm" in operators(result.model)


def test_a_bias_that_is_huge_beside_its_weight_still_fits(tmp_path: Path) -> None:
    weights = conv_weights(a=(8, 3, 3, 3))
    weights["a"][3] *= 1e-9
    weights["a_bias"][3] = 5
    model = build(tmp_path, [_conv("x", "a", "y")], weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 8, 12, 12]})
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES)
    assert run(result.model, _FEEDS)["y"][:, 3] == pytest.approx(5, abs=0.05)


def test_samples_that_are_not_finite_leave_what_they_touch_in_float(tmp_path: Path) -> None:
    bad = random_weight(2, 3, 12, 12)
    bad[0, 0, 0, 0] = np.nan
    result = apply(QuantizeStatic, _residual(tmp_path), tmp_path, [*_IMAGES, {"x": bad}])
    assert not result.changed
    assert "NaN or infinity on the samples at" in result.notes[0]


def test_without_samples_it_says_what_to_give(tmp_path: Path) -> None:
    result = apply(QuantizeStatic, _residual(tmp_path), tmp_path)
    assert not result.changed
    assert result.notes == ("there is no sample to measure ranges on: give --data",)


@_FORMATS
def test_nodes_that_share_a_weight_store_it_once_and_keep_their_own_biases(written: str, tmp_path: Path) -> None:
    nodes = [
        _conv("x", "a", "a1"),
        helper.make_node("Tanh", ["a1"], ["t"]),
        helper.make_node("Conv", ["t", "b", "b_bias"], ["b1"], name="b1", pads=[1] * 4),
        helper.make_node("Tanh", ["b1"], ["u"]),
        helper.make_node("Conv", ["u", "b", "a_bias"], ["b2"], name="b2", pads=[1] * 4),
        helper.make_node("GlobalMaxPool", ["b2"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["p"], name="p"),
        helper.make_node("Add", ["p", "v1"], ["p1"]),
        helper.make_node("MatMul", ["f", "w"], ["q"], name="q"),
        helper.make_node("Add", ["q", "v2"], ["q1"]),
        helper.make_node("Sub", ["p1", "q1"], ["y"]),
    ]
    weights = conv_weights(a=(64, 3, 3, 3), b=(64, 64, 3, 3))
    weights |= {"w": random_weight(64, 64), "v1": random_weight(64, seed=1), "v2": random_weight(64, seed=2)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 12, 12]}, {"y": ["n", 64]})
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, format=written, correct_bias=True)
    assert result.counts["products quantized"] == 2
    stored = [tuple(value.dims) for value in proto(result.model).graph.initializer]
    assert stored.count((64, 64, 3, 3)) == 1
    assert stored.count((64, 64)) == 1
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE


def test_one_sample_is_enough(tmp_path: Path) -> None:
    model = _residual(tmp_path)
    assert relative_l2(model, apply(QuantizeStatic, model, tmp_path, _IMAGES[:1]).model, _IMAGES[0]) < _CLOSE


def test_a_weight_that_is_not_finite_stays_float(tmp_path: Path) -> None:
    weights = conv_weights(a=(8, 3, 3, 3), b=(8, 8, 3, 3))
    weights["b"][0, 0, 0, 0] = np.inf
    nodes = [_conv("x", "a", "a1"), _conv("a1", "b", "b1")]
    model = build(
        tmp_path,
        [*nodes, helper.make_node("Tanh", ["b1"], ["y"])],
        weights,
        {"x": ["n", 3, 12, 12]},
        {"y": ["n", 8, 12, 12]},
    )
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES)
    assert result.counts["Conv quantized"] == 1
    assert any("b1" in note for note in result.notes)


def test_integers_without_a_fast_kernel_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = apply(QuantizeStatic, _product(tmp_path), tmp_path, _ROWS, activations="uint16", format="qdq")
    assert "known not to have a fast kernel: products with uint16 run in float between conversions" in wide.notes[0]
    for x86, format_, told in ((True, "qoperator", True), (True, "qdq", False), (False, "qoperator", False)):
        monkeypatch.setattr("optim_plugins.ort.quantize.static.static_graph.signed_are_slow", lambda x86=x86: x86)
        signed = apply(QuantizeStatic, _product(tmp_path), tmp_path, _ROWS, activations="int8", format=format_)
        assert any("known not to have a fast kernel" in note for note in signed.notes) is told


def test_options_that_do_not_fit_each_other_are_refused() -> None:
    for options in ({"activations": "int16"}, {"activations": "int8", "weights": "uint8"}, {"percentile": 20}):
        with pytest.raises(OptimError) as caught:
            parse_options(QuantizeStatic, options)
        assert caught.value.reference == "bad-option"


def test_the_input_model_is_not_changed_and_a_second_time_finds_nothing(tmp_path: Path) -> None:
    model = _residual(tmp_path)
    files = {path: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    result = apply(QuantizeStatic, model, tmp_path, _IMAGES, calibration="mse")
    assert {path: path.read_bytes() for path in files} == files
    assert not [path for path in (tmp_path / "store").iterdir() if path.suffix == ".tmp"]
    assert not QuantizeStatic().applicable(result.model, CPU)


def test_a_model_without_such_nodes_is_declined_with_its_reason(tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})
    assert "no Conv, MatMul or Gemm" in QuantizeStatic().applicable(model, CPU).reason


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
@_FORMATS
def test_exports_stay_near(name: str, written: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    samples = [feeds_for(name), feeds_for(name, sequence=9)]
    result = apply(QuantizeStatic, model, tmp_path, samples, format=written)
    assert names_and_shapes(result.model)[:2] == names_and_shapes(model)[:2]
    assert 1e-4 < relative_l2(model, result.model, samples[0]) < 0.2


def test_auto_offers_it_to_convolutions_and_to_many_rows(tmp_path: Path) -> None:
    def offered(model: Model, samples: list[Any]) -> list[Any]:
        return list(QuantizeStatic().candidates(model, CPU, context(tmp_path, samples)))

    assert offered(_residual(tmp_path), _IMAGES)[0].correct_bias
    bert = export("bert.dynamo", tmp_path)
    assert offered(bert, [feeds_for("bert.dynamo", sequence=20)])[0].smoothing > 0
    assert not offered(export("gpt2.dynamo", tmp_path), [feeds_for("gpt2.dynamo", batch=1, sequence=1)])


def test_the_ranges_are_in_the_graph(tmp_path: Path) -> None:
    result = apply(QuantizeStatic, _product(tmp_path), tmp_path, _ROWS)
    (scale,) = [value for value in proto(result.model).graph.initializer if value.name == "x_scale"]
    extent = max(np.abs(sample["x"]).max() for sample in _ROWS)
    assert onnx.numpy_helper.to_array(scale) == pytest.approx(2 * extent / 255, rel=0.1)


def test_a_model_without_standard_operators_is_declined(tmp_path: Path) -> None:
    text = """<opset_import: ["ai.onnx.ml": 1]> g (float[2] x) => (float[2] y) {
        y = ai.onnx.ml.Binarizer <threshold = 0.5> (x)
    }"""
    assert QuantizeStatic().applicable(parsed(tmp_path, text), CPU).reason == "the model has no standard operators"
