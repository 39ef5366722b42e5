"""What ``ort.quantize-static`` makes of nets that read images: integers from the image to the classifier."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper
from ort_models import (
    CPU,
    Array,
    after_fusion,
    apply,
    build,
    context,
    conv_weights,
    operators,
    proto,
    random_weight,
    relative_l2,
    run,
)
from rounding import rounding

from optim import Model, OptimError
from optim.options import parse_options
from optim_plugins.ort import hardware
from optim_plugins.ort.quantize.static.filled_channels import missing_channels
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic

_FORMATS = pytest.mark.parametrize("written", ["qoperator", "qdq"])
_WIDTH = 48


def _conv(source: str, weight: str, result: str, **attributes: Any) -> Any:
    return helper.make_node("Conv", [source, weight, f"{weight}_bias"], [result], name=result, **attributes)


def _stem(folder: Path, channels: int = 3) -> Model:
    """One convolution of an image."""
    weights = conv_weights(a=(16, channels, 3, 3))
    nodes = [_conv("x", "a", "y", pads=[1, 1, 1, 1])]
    return build(folder, nodes, weights, {"x": ["n", channels, 10, 10]}, {"y": ["n", 16, 10, 10]})


def _images(channels: int = 3, seed: int = 0) -> dict[str, Array]:
    return {"x": random_weight(2, channels, 10, 10, seed=seed)}


def _initializers(model: Model) -> dict[str, Array]:
    return {one.name: numpy_helper.to_array(one) for one in proto(model).graph.initializer}


@pytest.mark.parametrize("weights", ["int8", "uint8"])
@pytest.mark.parametrize("channels", [1, 3, 6])
@_FORMATS
def test_filling_up_channels_changes_no_number(written: str, channels: int, weights: str, tmp_path: Path) -> None:
    model, samples = _stem(tmp_path, channels), [_images(channels, seed=seed) for seed in range(2)]
    options = {"format": written, "weights": weights, "correct_bias": True}
    plain = apply(QuantizeStatic, model, tmp_path, samples, **options).model
    filled = apply(QuantizeStatic, model, tmp_path, samples, **options, fill_channels=True).model
    feeds = samples[0]
    assert np.array_equal(run(plain, feeds)["y"], run(filled, feeds)["y"])
    assert relative_l2(model, filled, feeds) < rounding()
    really = after_fusion(filled)
    assert really["Pad"] == really["QLinearConv"] == really["QuantizeLinear"] == 1
    assert not really["Conv"]


@_FORMATS
def test_the_weight_gets_zeros_and_the_image_a_channel_in_integers(written: str, tmp_path: Path) -> None:
    filled = apply(QuantizeStatic, _stem(tmp_path), tmp_path, [_images()], format=written, fill_channels=True).model
    weight = _initializers(filled)["a_quantized"]
    assert weight.shape == (16, 4, 3, 3)
    assert weight[:, :3].any()
    assert not weight[:, 3].any()
    order = operators(filled)
    assert order.index("QuantizeLinear") < order.index("Pad")


@_FORMATS
def test_sounds_and_signed_activations_are_filled_up_too(written: str, tmp_path: Path) -> None:
    nodes = [_conv("x", "a", "y", pads=[2, 2])]
    model = build(tmp_path, nodes, conv_weights(a=(16, 1, 5)), {"x": ["n", 1, 40]}, {"y": ["n", 16, 40]})
    feeds = {"x": random_weight(2, 1, 40)}
    options = {"format": written, "activations": "int8", "fill_channels": True}
    filled = apply(QuantizeStatic, model, tmp_path, [feeds], **options).model
    assert operators(filled).count("Pad") == 1
    assert relative_l2(model, filled, feeds) < rounding()


def test_sixteen_bits_are_not_filled_up() -> None:
    with pytest.raises(OptimError, match="Pad of 16 bits"):
        parse_options(QuantizeStatic, {"activations": "uint16", "format": "qdq", "fill_channels": True})


def test_convolutions_of_one_image_share_what_is_filled_up(tmp_path: Path) -> None:
    nodes = [_conv("x", "a", "a1"), _conv("x", "b", "b1"), helper.make_node("Add", ["a1", "b1"], ["y"])]
    weights = conv_weights(a=(16, 3, 3, 3), b=(16, 3, 3, 3))
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 10, 10]}, {"y": ["n", 16, 8, 8]})
    filled = apply(QuantizeStatic, model, tmp_path, [_images()], fill_channels=True).model
    assert operators(filled).count("Pad") == 1
    assert relative_l2(model, filled, _images()) < rounding()


def test_only_what_the_kernel_then_takes_is_filled_up() -> None:
    assert missing_channels((64, 3, 7, 7), 1) == 1
    assert missing_channels((32, 1, 3, 3), 1) == 3
    assert missing_channels((32, 18, 1, 1), 1) == 2
    assert missing_channels((64, 64, 3, 3), 1) == 0, "it fits"
    assert missing_channels((32, 1, 3, 3), 32) == 0, "depthwise"
    assert missing_channels((8, 3, 3, 3), 1) == 0, "too few outputs"
    assert missing_channels((18, 3, 3, 3), 1) == 0, "odd outputs"


def test_auto_fills_up_channels_for_x86_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offered(provider: str) -> list[bool]:
        given = context(tmp_path, [_images()])
        offers = QuantizeStatic().candidates(_stem(tmp_path), replace(CPU, provider=provider), given)
        return [options.fill_channels for options in offers]

    monkeypatch.setattr(hardware, "fills_channels", lambda: True)
    assert offered("CPUExecutionProvider") == [True]
    assert offered("wasm") == [False]
    monkeypatch.setattr(hardware, "fills_channels", lambda: False)
    assert offered("CPUExecutionProvider") == [False]


def _digits() -> tuple[Array, Array]:
    """Images [N, 1, 16, 16] and what they show [N]."""
    datasets = pytest.importorskip("sklearn.datasets")
    pixels, labels = datasets.load_digits(return_X_y=True)
    images = (pixels / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    return images.repeat(2, axis=2).repeat(2, axis=3), labels


def _residual_net(folder: Path, head: Array, bias: Array) -> Model:
    """A residual block, a mean over the image, and a classifier too small to be worth integers."""
    nodes = [
        _conv("x", "a", "a1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a1"], ["a2"]),
        _conv("a2", "b", "b1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["b1"], ["b2"]),
        _conv("b2", "c", "c1", pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c1", "a2"], ["s"], name="sum"),
        helper.make_node("Relu", ["s"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["features"]),
        helper.make_node("Gemm", ["features", "head", "bias"], ["y"], name="head"),
    ]
    weights = conv_weights(a=(_WIDTH, 1, 3, 3), b=(_WIDTH, _WIDTH, 3, 3), c=(_WIDTH, _WIDTH, 3, 3))
    weights |= {"head": head.astype(np.float32), "bias": bias.astype(np.float32)}
    return build(folder, nodes, weights, {"x": ["n", 1, 16, 16]}, {"y": ["n", len(bias)]})


@pytest.mark.slow
@_FORMATS
def test_a_trained_net_stays_in_integers_to_its_classifier_and_keeps_its_accuracy(written: str, tmp_path: Path) -> None:
    linear = pytest.importorskip("sklearn.linear_model")
    images, labels = _digits()
    shown, held_out = {"x": images[:900]}, {"x": images[900:]}
    features = run(_residual_net(tmp_path, np.eye(_WIDTH), np.zeros(_WIDTH)), shown)["y"]
    found = linear.LogisticRegression(C=100, max_iter=400).fit(features, labels[:900])
    model = _residual_net(tmp_path, found.coef_.T, found.intercept_)
    samples = [{"x": images[start : start + 30]} for start in range(0, 300, 30)]
    (options,) = QuantizeStatic().candidates(model, CPU, context(tmp_path, samples))
    chosen = options.model_dump() | {"format": written, "fill_channels": True}
    result = apply(QuantizeStatic, model, tmp_path, samples, **chosen)

    really = after_fusion(result.model)
    assert really["QLinearConv"] == 3
    assert really["QLinearAdd"] == really["QLinearGlobalAveragePool"] == really["Gemm"] == 1
    assert really["QuantizeLinear"] == really["DequantizeLinear"] == 1
    assert not {"Conv", "Add", "Relu", "GlobalAveragePool"} & set(really)
    assert 1e-4 < relative_l2(model, result.model, held_out) < 0.1

    def accuracy(which: Model) -> float:
        return float((run(which, held_out)["y"].argmax(axis=1) == labels[900:]).mean())

    assert accuracy(model) > 0.7
    assert accuracy(result.model) > accuracy(model) - 0.01
