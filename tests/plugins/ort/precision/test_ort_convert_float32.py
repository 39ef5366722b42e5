"""``ort.convert-float32``: models that come in 16 bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from float16_cases import CLOSE, FEEDS, converted, layers, types_of, weights_of
from onnx import TensorProto, helper
from ort_models import CPU, EXPORTS, apply, export, feeds_for, operators, random_weight, relative_l2, run

from optim import Model
from optim.onnx import describe_model
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.precision.convert_bfloat16 import ConvertBfloat16
from optim_plugins.ort.precision.convert_float32 import ConvertFloat32
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic

_EXACT = 1e-6


def _layer(folder: Path) -> Model:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"), helper.make_node("Relu", ["p"], ["y"])]
    return layers(folder, nodes, {"w": random_weight(64, 64)})


def _of(folder: Path, graph: onnx.GraphProto, *, opset: int = 17) -> Model:
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, folder / "narrow.onnx")
    return describe_model(folder / "narrow.onnx")


def test_a_layer_is_computed_in_float32_with_the_rounded_weights(tmp_path: Path) -> None:
    narrow = converted(_layer(tmp_path), tmp_path).model
    result = apply(ConvertFloat32, narrow, tmp_path)
    assert operators(result.model) == ["MatMul", "Relu"]
    (weight,) = weights_of(result.model).values()
    assert weight.data_type == TensorProto.FLOAT
    assert result.counts == {"weights widened": 1, "nodes changed": 1, "Cast removed": 2}
    rounded = random_weight(64, 64).astype(np.float16).astype(np.float32)
    expected = np.maximum(FEEDS["x"] @ rounded, 0)
    np.testing.assert_allclose(run(result.model, FEEDS)["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("type_name", ["FLOAT16", "BFLOAT16"])
def test_inputs_and_outputs_keep_their_types(type_name: str, tmp_path: Path) -> None:
    dtype = getattr(TensorProto, type_name)
    weight = helper.make_tensor("w", dtype, [8, 8], np.linspace(-1, 1, 64).tolist())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    values = {name: helper.make_tensor_value_info(name, dtype, ["n", 8]) for name in "xyz"}
    graph = helper.make_graph(nodes, "g", [values["x"]], [values["y"], values["z"]], [weight])
    narrow = _of(tmp_path, graph)
    result = apply(ConvertFloat32, narrow, tmp_path)
    assert [(value.name, value.dtype) for value in result.model.outputs] == [
        (value.name, value.dtype) for value in narrow.outputs
    ]
    assert result.model.inputs == narrow.inputs
    assert sorted(operators(result.model)) == ["Cast", "Cast", "Cast", "MatMul", "Relu"]
    assert {value.data_type for value in weights_of(result.model).values()} == {TensorProto.FLOAT}
    if type_name == "FLOAT16":
        x = random_weight(5, 8, seed=3).astype(np.float16)
        assert relative_l2(narrow, result.model, {"x": x}) < CLOSE


def test_casts_constants_and_branches_are_widened_too(tmp_path: Path) -> None:
    half = TensorProto.FLOAT16
    branch = [
        helper.make_graph(
            [helper.make_node(operator, ["h", "two"], [f"b_{operator}"])],
            operator,
            [],
            [helper.make_tensor_value_info(f"b_{operator}", half, None)],
        )
        for operator in ("Mul", "Div")
    ]
    nodes = [
        helper.make_node("Constant", [], ["two"], value=helper.make_tensor("two", half, [], [2.0])),
        helper.make_node("Cast", ["x"], ["h"], to=half),
        helper.make_node("If", ["flag"], ["picked"], then_branch=branch[0], else_branch=branch[1]),
        helper.make_node("Cast", ["picked"], ["y"], to=TensorProto.FLOAT),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [3]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])])
    narrow = _of(tmp_path, graph)
    result = apply(ConvertFloat32, narrow, tmp_path)
    assert "Cast" not in operators(result.model)
    assert set(types_of(result.model).values()) <= {TensorProto.FLOAT, 0}
    x = np.array([0.1, 1e5, -3.0], np.float32)
    for flag, expected in ((True, x * 2), (False, x / 2)):
        np.testing.assert_array_equal(run(result.model, {"x": x, "flag": np.array(flag)})["y"], expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_in_16_bits_come_back(name: str, tmp_path: Path) -> None:
    feeds = feeds_for(name)
    model = export(name, tmp_path)
    narrow = converted(model, tmp_path, feeds).model
    result = apply(ConvertFloat32, narrow, tmp_path)
    assert not apply(ConvertFloat32, result.model, tmp_path).changed
    assert relative_l2(model, result.model, feeds) < CLOSE
    assert TensorProto.FLOAT16 not in {value.data_type for value in weights_of(result.model).values()}


@pytest.mark.slow
def test_attention_is_fused_and_weights_are_quantized_behind_it(tmp_path: Path) -> None:
    narrow = converted(export("bert.dynamo", tmp_path), tmp_path, feeds_for("bert.dynamo")).model
    assert not QuantizeDynamic().applicable(narrow, CPU)
    wide = apply(ConvertFloat32, narrow, tmp_path).model
    assert QuantizeDynamic().applicable(wide, CPU)
    fused = apply(FuseTransformer, wide, tmp_path)
    assert fused.changed
    assert not any("not float32" in note for note in fused.notes)


def test_weights_stored_in_16_bits_become_constants_of_products(tmp_path: Path) -> None:
    stored = converted(_layer(tmp_path), tmp_path, weights_only=True).model
    assert operators(stored) == ["Cast", "MatMul", "Relu"]
    result = apply(ConvertFloat32, stored, tmp_path)
    assert operators(result.model) == ["MatMul", "Relu"]
    assert relative_l2(stored, result.model, FEEDS) <= _EXACT


def test_bfloat16_comes_back(tmp_path: Path) -> None:
    stored = apply(ConvertBfloat16, _layer(tmp_path), tmp_path, weights_only=True).model
    result = apply(ConvertFloat32, stored, tmp_path)
    assert {value.data_type for value in weights_of(result.model).values()} == {TensorProto.FLOAT}
    assert relative_l2(stored, result.model, FEEDS) <= _EXACT


def test_what_is_not_in_16_bits_is_declined(tmp_path: Path) -> None:
    said = ConvertFloat32().applicable(_layer(tmp_path), CPU)
    assert (bool(said), said.reason) == (False, "none of its tensors is in float16 or bfloat16")


def test_an_operator_that_nobody_defines_is_declined_by_name(tmp_path: Path) -> None:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, [3]) for name in ("h", "y")]
    node = helper.make_node("Own", ["h"], ["y"], name="own", domain="test.vendor")
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test.vendor", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "own.onnx")
    said = ConvertFloat32().applicable(describe_model(tmp_path / "own.onnx"), CPU)
    assert said.reason == "nobody defines which types test.vendor:Own takes (node 'own')"


def test_a_past_in_16_bits_is_left_alone(tmp_path: Path) -> None:
    half = TensorProto.FLOAT16
    names = ["query", "", "", "past_key", "past_value", "seqlens", "total"]
    node = helper.make_node(
        "GroupQueryAttention",
        names,
        ["out", "present_key", "present_value"],
        domain="com.microsoft",
        num_heads=2,
        kv_num_heads=2,
        name="attention",
    )
    inputs: list[Any] = [helper.make_tensor_value_info("query", half, [1, 1, 48])]
    inputs += [helper.make_tensor_value_info(name, half, [1, 2, "past", 8]) for name in names[3:5]]
    inputs += [helper.make_tensor_value_info("seqlens", TensorProto.INT32, [1])]
    inputs += [helper.make_tensor_value_info("total", TensorProto.INT32, [])]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("out", half, [1, 1, 16])])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "past.onnx")
    said = ConvertFloat32().applicable(describe_model(tmp_path / "past.onnx"), CPU)
    assert said.reason == "its past 'past_key' comes in 16 bits, and would be cast at each token"
