"""LSTMs in 8 bits: both directions, in branches, with what they are given and give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper
from ort_models import CPU, Array, apply, build, names_and_shapes, operators, random_weight, relative_l2
from rounding import rounding

from optim import Model
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

UNITS, INPUTS, LENGTH = 192, 160, 4
FEEDS = {"x": random_weight(LENGTH, 2, INPUTS)}
_CLOSE = rounding(products=LENGTH)
"""Each step multiplies what the one before it gave."""


def lstm(inputs: str = "x W R B", outputs: str = "y h c", **attributes: Any) -> NodeProto:
    return helper.make_node("LSTM", inputs.split(), outputs.split(), name="cell", hidden_size=UNITS, **attributes)


def weights(directions: int = 1, units: int = UNITS) -> dict[str, Array]:
    scale = np.float32(16)
    return {
        "W": random_weight(directions, 4 * units, INPUTS) / scale,
        "R": random_weight(directions, 4 * units, units, seed=1) / scale,
        "B": random_weight(directions, 8 * units, seed=2) / scale,
    }


def net(folder: Path, node: NodeProto, directions: int = 1, **more: Array) -> Model:
    outputs: dict[str, list[int | str]] = {
        "y": [LENGTH, directions, 2, UNITS],
        "h": [directions, 2, UNITS],
        "c": [directions, 2, UNITS],
    }
    known = weights(directions) | more
    return build(folder, [node], known, {"x": [LENGTH, 2, INPUTS]}, outputs)


@pytest.mark.parametrize("per_channel", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_an_lstm_is_quantized_in_each_direction(direction: str, per_channel: bool, tmp_path: Path) -> None:
    model = net(tmp_path, lstm(direction=direction), 2 if direction == "bidirectional" else 1)
    result = apply(QuantizeDynamic, model, tmp_path, per_channel=per_channel)
    assert operators(result.model) == ["DynamicQuantizeLSTM"]
    assert result.counts["LSTM quantized"] == 1
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert 1e-4 < relative_l2(model, result.model, FEEDS) < _CLOSE
    assert not apply(QuantizeDynamic, result.model, tmp_path).changed


def test_states_and_lengths_go_along(tmp_path: Path) -> None:
    states = {"h0": random_weight(1, 2, UNITS, seed=5), "c0": random_weight(1, 2, UNITS, seed=6)}
    lengths = {"n": np.array([4, 2], np.int32)}
    model = net(tmp_path, lstm("x W R B n h0 c0", clip=3.0), **states, **lengths)
    result = apply(QuantizeDynamic, model, tmp_path, reduce_range=True)
    assert operators(result.model) == ["DynamicQuantizeLSTM"]
    assert 1e-4 < relative_l2(model, result.model, FEEDS) < _CLOSE


def test_one_that_is_kept_stays(tmp_path: Path) -> None:
    model = net(tmp_path, lstm())
    assert QuantizeDynamic().keepable(model, None) == ["cell"]
    result = apply(QuantizeDynamic, model, tmp_path, keep=("cell",))
    assert not result.changed
    assert result.notes == ("no product is left to quantize",)


def test_static_quantization_reaches_it_beside_convolutions(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "K"], ["k"], name="conv"),
        helper.make_node("Transpose", ["k"], ["t"], perm=[2, 0, 1]),
        lstm("t W R B", "y"),
    ]
    known = weights() | {"K": random_weight(INPUTS, 16, 1) / np.float32(4)}
    model = build(tmp_path, nodes, known, {"x": [2, 16, LENGTH]}, {"y": [LENGTH, 1, 2, UNITS]})
    samples = [{"x": random_weight(2, 16, LENGTH, seed=seed)} for seed in range(2)]
    assert QuantizeStatic().keepable(model, QuantizeStaticOptions()) == ["conv", "cell"]
    assert QuantizeStatic().keepable(model, QuantizeStaticOptions(format="qdq")) == ["conv"]
    result = apply(QuantizeStatic, model, tmp_path, samples)
    assert {"QLinearConv", "DynamicQuantizeLSTM"} < set(operators(result.model))
    assert 1e-4 < relative_l2(model, result.model, samples[0]) < _CLOSE
    kept = apply(QuantizeStatic, model, tmp_path, samples, keep=("cell",))
    assert "LSTM" in operators(kept.model)


@pytest.mark.parametrize("why", ["small", "not finite"])
def test_it_declines(why: str, tmp_path: Path) -> None:
    known = weights(units=UNITS)
    if why == "not finite":
        known["R"][0, 0, 0] = np.nan
        model = net(tmp_path, lstm(), **known)
        assert not apply(QuantizeDynamic, model, tmp_path).changed
        return
    node = helper.make_node("LSTM", ["x", "W", "R"], ["y"], hidden_size=16)
    small = {name: array for name, array in weights(units=16).items() if name != "B"}
    model = build(tmp_path, [node], small, {"x": [LENGTH, 2, INPUTS]}, {"y": [LENGTH, 1, 2, 16]})
    answer = QuantizeDynamic().applicable(model, CPU)
    assert not answer
    assert "no LSTM is large" in answer.reason
