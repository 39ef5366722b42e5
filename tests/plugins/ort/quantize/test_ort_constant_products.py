"""Products that no input of the graph reaches stay float: the runtime folds these, and quantized ones it does not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import CPU, after_fusion, apply, build, proto, random_weight, relative_l2

from optim import Model, Pass
from optim.options import parse_options
from optim_plugins.nvidia.tensorrt.quantize import Quantize
from optim_plugins.ort.graph.products import find_products
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights

_PASSES: dict[str, tuple[type[Pass], dict[str, Any]]] = {
    "dynamic": (QuantizeDynamic, {}),
    "static": (QuantizeStatic, {}),
    "weights": (QuantizeWeights, {}),
    "weights, scaled by samples": (QuantizeWeights, {"bits": 4, "method": "scale-estimation"}),
    "tensorrt": (Quantize, {"format": "int4-weights"}),
}
_SAMPLES = [{"x": random_weight(16, 64, seed=seed)} for seed in range(3)]


def of_positions(folder: Path, **how: Any) -> Model:
    """Queries against a table of positions, as DeBERTa has them: ``(x W) (tanh(table) V)^T``."""
    nodes = [
        helper.make_node("Tanh", ["table"], ["squashed"]),
        helper.make_node("MatMul", ["squashed", "v"], ["keys"], name="positions"),
        helper.make_node("Transpose", ["keys"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "w"], ["queries"], name="queries"),
        helper.make_node("MatMul", ["queries", "turned"], ["y"], name="scores"),
    ]
    weights = {"table": random_weight(512, 64), "v": random_weight(64, 64, seed=1), "w": random_weight(64, 64, seed=2)}
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 512]}, **how)


@pytest.mark.parametrize("case", _PASSES)
def test_a_product_of_constants_stays_float(case: str, tmp_path: Path) -> None:
    pass_class, options = _PASSES[case]
    model = of_positions(tmp_path, opset=21, ir_version=10)
    assert pass_class().keepable(model, parse_options(pass_class, options)) == ["queries"]
    result = apply(pass_class, model, tmp_path, _SAMPLES, **options)
    graph = proto(result.model).graph
    floats = {one.name for one in graph.initializer if one.data_type == TensorProto.FLOAT}
    assert "v" in floats
    assert "w" not in floats
    assert relative_l2(model, result.model, _SAMPLES[0]) < 0.2


def test_the_runtime_computes_it_once(tmp_path: Path) -> None:
    result = apply(QuantizeDynamic, of_positions(tmp_path), tmp_path, _SAMPLES)
    assert result.counts["products quantized"] == 1
    assert after_fusion(result.model) == Counter({"DynamicQuantizeMatMul": 1, "MatMul": 1})


@pytest.mark.parametrize("pass_class", [QuantizeDynamic, QuantizeStatic])
def test_weights_that_old_exporters_list_among_the_inputs_reach_nothing(pass_class: type[Pass], tmp_path: Path) -> None:
    model = of_positions(tmp_path, ir_version=3, opset=13, weights_are_inputs=True)
    result = apply(pass_class, model, tmp_path, _SAMPLES)
    assert "v" in {one.name for one in proto(result.model).graph.initializer}
    assert "w" not in {one.name for one in proto(result.model).graph.initializer}


def test_a_model_whose_only_product_is_one_of_constants_is_declined_with_its_reason(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["table", "v"], ["keys"]), helper.make_node("Add", ["x", "keys"], ["y"])]
    weights = {"table": random_weight(8, 64), "v": random_weight(64, 64, seed=1)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 64]})
    found = QuantizeDynamic().applicable(model, CPU)
    assert not found.yes
    assert "no MatMul or Gemm has a constant float32 weight" in found.reason


def test_in_a_body_what_it_is_given_reaches_and_what_it_captures_need_not() -> None:
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["p"], name="of_state"),
            helper.make_node("MatMul", ["table", "w"], ["q"], name="of_table"),
            helper.make_node("MatMul", ["x", "w"], ["r"], name="of_input"),
            helper.make_node("Sum", ["p", "q", "r"], ["next"]),
            helper.make_node("Identity", ["on"], ["goes_on"]),
        ],
        "body",
        [helper.make_tensor_value_info(*one) for one in (("i", 7, []), ("on", 9, []), ("state", 1, [4, 64]))],
        [helper.make_tensor_value_info(*one) for one in (("goes_on", 9, []), ("next", 1, [4, 64]))],
    )
    nodes = [
        helper.make_node("Loop", ["times", "", "table"], ["looped"], body=body),
        helper.make_node("MatMul", ["looped", "w"], ["y"], name="of_loop"),
    ]
    arrays = {"times": np.array(2), "table": random_weight(4, 64), "w": random_weight(64, 64)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, [4, 64])],
        [helper.make_tensor_value_info("y", 1, [4, 64])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = ir.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [one.name for one in find_products(model, 1)] == ["of_state", "of_input", "of_loop"]
