"""What lies between quantized convolutions: HardSwish, shifts, splitting, enlarging stay in integers, SiLU does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper
from ort_models import Array, apply, build, operators, proto, random_weight, relative_l2
from rounding import rounding

from optim import Model
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.static.scales_and_zero_points import constant_integers

SAMPLES = [{"x": random_weight(1, 4, 8, 8, seed=seed)} for seed in range(3)]
_ROUNDING = rounding(products=4)
"""Of two convolutions, and of some four roundings to 8 bits between them."""


def node(operator: str, inputs: str, output: str, **attributes: object) -> NodeProto:
    names = [name.strip("-") for name in inputs.split()]
    return helper.make_node(operator, names, output.split(), name=f"node_{output.split()[0]}", **attributes)


def net(folder: Path, *middle: NodeProto, **weights: Array) -> Model:
    """Two convolutions from x to y, with what lies between c and d."""
    nodes = [node("Conv", "x w", "c"), *middle, node("Conv", "d v", "y")]
    known = {"w": random_weight(8, 4, 3, 3), "v": random_weight(6, 8, 1, 1, seed=1), **weights}
    return build(folder, nodes, known, {"x": [1, 4, 8, 8]}, {"y": [1, 6, "h", "w"]}, opset=17)


def quantized(folder: Path, model: Model, **options: object) -> tuple[list[str], float]:
    """Operators, and the drift on a sample, which is finite and not 0."""
    result = apply(QuantizeStatic, model, folder, SAMPLES, **options)
    return operators(result.model), relative_l2(model, result.model, SAMPLES[0])


GATE = node("HardSigmoid", "c", "s", alpha=1 / 6, beta=0.5)
HARD_SWISH = [[GATE, node("Mul", "c s", "d")], [node("HardSwish", "c", "d")]]


@pytest.mark.parametrize("middle", HARD_SWISH, ids=["written out", "an operator"])
def test_hard_swish_clips_integers_and_multiplies_them(middle: list[NodeProto], tmp_path: Path) -> None:
    model = net(tmp_path, *middle)
    made = apply(QuantizeStatic, model, tmp_path, SAMPLES).model
    between = ["Clip", "QLinearMul"]
    assert operators(made) == ["QuantizeLinear", "QLinearConv", *between, "QLinearConv", "DequantizeLinear"]
    assert relative_l2(model, made, SAMPLES[0]) < _ROUNDING
    clip, product = (one for one in proto(made).graph.node if one.op_type in between)
    least, most, size, closed = (
        float(onnx.numpy_helper.to_array(initializer(made, name))) for name in (*clip.input[1:], *product.input[4:6])
    )
    assert (least - closed) * size == 0
    assert (most - closed) * size == pytest.approx(1) or (most == 255 and (most - closed) * size < 1)


def test_a_gate_that_would_cost_its_source_much_of_its_range_is_a_sum(tmp_path: Path) -> None:
    weight = np.abs(random_weight(8, 4, 1, 1))
    samples = [{"x": np.abs(sample["x"])} for sample in SAMPLES]
    model = net(tmp_path, *HARD_SWISH[0], w=0.1 * weight)  # nothing is below 0, where half of the gate lies
    made = apply(QuantizeStatic, model, tmp_path, samples).model
    assert Counter(operators(made))["QLinearAdd"] == 1
    assert relative_l2(model, made, samples[0]) < _ROUNDING


@pytest.mark.parametrize(
    ("operator", "mean"), [("HardSwish", "GlobalAveragePool"), ("Relu", "QLinearGlobalAveragePool")]
)
def test_what_an_activation_leaves_next_to_zero_is_not_rounded_before_its_mean(
    operator: str, mean: str, tmp_path: Path
) -> None:
    model = net(tmp_path, node(operator, "c", "a"), node("GlobalAveragePool", "a", "d"))
    found, distance = quantized(tmp_path, model)
    assert mean in found
    assert found.count("QLinearConv") == 2
    assert distance < _ROUNDING


def initializer(model: Model, name: str) -> TensorProto:
    return next(tensor for tensor in proto(model).graph.initializer if tensor.name == name)


SILU = [node("Sigmoid", "c", "s"), node("Mul", "s c", "t")]


def test_silu_is_one_operator_of_floats_and_what_follows_stays_in_integers(tmp_path: Path) -> None:
    model = net(tmp_path, *SILU, node("Concat", "t c", "d", axis=1), v=random_weight(6, 16, 1, 1, seed=1))
    found, distance = quantized(tmp_path, model)
    silu = ["DequantizeLinear", "QuickGelu", "QuantizeLinear"]
    assert found == ["QuantizeLinear", "QLinearConv", *silu, "QLinearConcat", "QLinearConv", "DequantizeLinear"]
    assert distance < _ROUNDING


def test_pairs_stand_within_a_silu_too(tmp_path: Path) -> None:
    found, distance = quantized(tmp_path, net(tmp_path, *SILU[:1], node("Mul", "c s", "d")), format="qdq")
    assert found[found.index("Sigmoid") + 1] == "QuantizeLinear"
    assert found.count("QuantizeLinear") == 5  # of x, c, s, d and y
    assert distance < _ROUNDING


def test_a_silu_of_what_is_far_below_zero_spends_no_integers_on_it(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w b", "c"), *SILU[:1], node("Mul", "c s", "d"), node("Conv", "d v", "y")]
    weights = {"w": random_weight(8, 4, 3, 3), "v": random_weight(6, 8, 1, 1, seed=1)}
    weights["b"] = np.linspace(-60, 2, 8, dtype=np.float32)
    model = build(tmp_path, nodes, weights, {"x": [1, 4, 8, 8]}, {"y": [1, 6, "h", "w"]}, opset=17)
    made = {how: apply(QuantizeStatic, model, tmp_path, SAMPLES, calibration=how).model for how in ("mse", "minmax")}
    steps = {how: onnx.numpy_helper.to_array(initializer(one, "c_scale")) for how, one in made.items()}
    assert steps["mse"] < 0.4 * steps["minmax"]
    assert relative_l2(model, made["mse"], SAMPLES[0]) < relative_l2(model, made["minmax"], SAMPLES[0])


def test_the_range_of_a_hard_sigmoid_clips_as_it_does(tmp_path: Path) -> None:
    middle = [node("HardSigmoid", "c", "d", alpha=3.0, beta=0.2)]
    found, distance = quantized(tmp_path, net(tmp_path, *middle))
    assert found.count("QLinearAdd") == 1
    assert distance < _ROUNDING


@pytest.mark.parametrize("shape", [(), (8, 1, 1)])
def test_a_shift_that_no_convolution_takes_stays_in_integers(shape: tuple[int, ...], tmp_path: Path) -> None:
    shift = random_weight(*shape, seed=7) if shape else np.array(-0.7, np.float32)
    middle = [node("Relu", "c", "r"), node("Mul", "r two", "m"), node("Add", "m shift", "d"), node("Exp", "d", "e")]
    model = net(tmp_path, *middle, shift=shift, two=np.array(2, np.float32))
    found, distance = quantized(tmp_path, model)
    assert Counter(found)["QLinearAdd"] == 2
    assert distance < _ROUNDING


def test_parts_and_enlarged_tensors_stay_in_integers(tmp_path: Path) -> None:
    middle = [
        node("Split", "c", "a b", axis=1),
        node("Resize", "a - scales", "large", mode="nearest"),
        node("Resize", "b - scales", "larger", mode="nearest"),
        node("Concat", "large larger", "d", axis=1),
    ]
    model = net(tmp_path, *middle, scales=np.array([1, 1, 2, 2], np.float32))
    result = apply(QuantizeStatic, model, tmp_path, SAMPLES)
    found = operators(result.model)
    assert found.count("DequantizeLinear") == found.count("QuantizeLinear") == 1
    assert {"Split", "Resize", "QLinearConcat"} <= set(found)
    assert relative_l2(model, result.model, SAMPLES[0]) < _ROUNDING
    inferred = onnx.shape_inference.infer_shapes(proto(result.model)).graph.value_info
    types = {value.name: value.type.tensor_type.elem_type for value in inferred}
    assert types["a_quantized"] == types["b_quantized"] == TensorProto.UINT8


def test_what_makes_new_values_is_computed_in_floats(tmp_path: Path) -> None:
    middle = [node("Resize", "c - scales", "d", mode="linear")]
    found, _ = quantized(tmp_path, net(tmp_path, *middle, scales=np.array([1, 1, 2, 2], np.float32)))
    assert found.count("DequantizeLinear") == 2


def test_a_part_of_a_split_that_is_an_output_becomes_floats(tmp_path: Path) -> None:
    nodes = [node("Conv", "x w", "c"), node("Split", "c", "a y", axis=1), node("Conv", "a v", "z")]
    weights = {"w": random_weight(8, 4, 3, 3), "v": random_weight(6, 4, 1, 1, seed=1)}
    model = build(tmp_path, nodes, weights, {"x": [1, 4, 8, 8]}, {"y": [1, 4, 6, 6], "z": [1, 6, 6, 6]}, opset=17)
    found, distance = quantized(tmp_path, model)
    assert found.count("DequantizeLinear") == 2
    assert distance < _ROUNDING


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_one_number_is_exact_in_integers(dtype: str) -> None:
    found = constant_integers(np.array(-0.37), np.dtype(dtype), 4)
    difference = found["addend"].astype(np.float64) - found["addend_zero"]
    assert np.isclose(difference * found["addend_scale"], -0.37, rtol=1e-6)
    assert found["addend"].dtype == dtype


HALF = np.array(0.5, np.float32)
GELU = {"one": np.array(1, np.float32), "half": HALF, "root": np.sqrt(np.array(2, np.float32))}


def gelu(source: str, result: str, order: str) -> list[NodeProto]:
    """Written out, the factors in one of three orders."""
    nodes = [node("Div", f"{source} root", "g1"), node("Erf", "g1", "g2"), node("Add", "g2 one", "g3")]
    if order == "half last":
        return [*nodes, node("Mul", f"{source} g3", "g4"), node("Mul", "g4 half", result)]
    if order == "half first":
        return [*nodes, node("Mul", "g3 half", "g4"), node("Mul", f"g4 {source}", result)]
    return [*nodes, node("Mul", f"{source} half", "g4"), node("Mul", "g4 g3", result)]


@pytest.mark.parametrize("order", ["half last", "half first", "half of the input"])
def test_gelu_that_is_written_out_is_one_operator_of_floats(order: str, tmp_path: Path) -> None:
    middle = [node("Identity", "c", "i"), *gelu("i", "d", order)]
    found, distance = quantized(tmp_path, net(tmp_path, *middle, **GELU))
    computed = ["DequantizeLinear", "Gelu", "QuantizeLinear"]
    assert found == ["QuantizeLinear", "QLinearConv", *computed, "QLinearConv", "DequantizeLinear"]
    assert distance < _ROUNDING


def test_what_is_no_gelu_stays_as_it_is(tmp_path: Path) -> None:
    middle = gelu("c", "d", "half last")
    found, distance = quantized(tmp_path, net(tmp_path, *middle, **GELU | {"half": HALF / 2}))
    assert "Gelu" not in found
    assert "Erf" in found
    assert distance < _ROUNDING
