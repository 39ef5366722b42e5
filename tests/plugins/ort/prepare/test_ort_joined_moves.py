"""Reshapes behind Reshapes, and Transposes behind quantized weights, in ``ort.clean``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from ort_models import apply, build, operators, random_weight, relative_l2

from optim_plugins.ort.prepare.clean import Clean

_INTEGERS = {
    "w": np.arange(-48, 48, dtype=np.int8).reshape(12, 8),
    "zero": np.array(3, np.int8),
    "zeros": np.arange(12, dtype=np.int8),
}
_FEEDS = {"x": random_weight(2, 8, seed=1)}


def _reshapes(folder: Path, target: list[int], *, read_twice: bool = False, **attributes: Any) -> Any:
    nodes = [
        helper.make_node("Reshape", ["x", "first"], ["between"]),
        helper.make_node("Reshape", ["between", "second"], ["moved"], **attributes),
        helper.make_node("Relu", ["moved"], ["y"]),
    ]
    outputs: dict[str, Any] = {"y": [None, None]}
    if read_twice:
        nodes.append(helper.make_node("Relu", ["between"], ["z"]))
        outputs["z"] = [4, 4]
    weights = {"first": np.array([4, 4], np.int64), "second": np.array(target, np.int64)}
    return build(folder, nodes, weights, {"x": [2, 8]}, outputs)


def test_the_shape_between_two_reshapes_does_not_matter(tmp_path: Path) -> None:
    model = _reshapes(tmp_path, [8, -1])
    result = apply(Clean, model, tmp_path)
    assert operators(result.model) == ["Reshape", "Relu"]
    assert relative_l2(model, result.model, _FEEDS) == 0
    assert not apply(Clean, result.model, tmp_path).changed


@pytest.mark.parametrize("how", [{"target": [0, 4]}, {"target": [8, -1], "read_twice": True}])
def test_a_size_that_is_copied_or_a_shape_that_others_read_stays(how: Any, tmp_path: Path) -> None:
    model = _reshapes(tmp_path, **how)
    assert operators(apply(Clean, model, tmp_path).model).count("Reshape") == 2


def _quantized(folder: Path, scale: Any, zero: str, **attributes: Any) -> Any:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", zero], ["floats"], **attributes),
        helper.make_node("Transpose", ["floats"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
    ]
    weights = {"w": _INTEGERS["w"], "scale": scale, zero: _INTEGERS[zero]}
    return build(folder, nodes, weights, {"x": [2, 8]}, {"y": [2, 12]})


@pytest.mark.parametrize(
    ("scale", "zero", "attributes"),
    [
        (np.array(0.1, np.float32), "zero", {}),
        (np.linspace(0.1, 0.5, 12, dtype=np.float32), "zeros", {"axis": 0}),
        (np.linspace(0.1, 0.5, 12, dtype=np.float32), "zeros", {"axis": -2}),
    ],
)
def test_a_quantized_weight_is_stored_transposed(scale: Any, zero: str, attributes: Any, tmp_path: Path) -> None:
    model = _quantized(tmp_path, scale, zero, **attributes)
    result = apply(Clean, model, tmp_path)
    assert operators(result.model) == ["DequantizeLinear", "MatMul"]
    assert relative_l2(model, result.model, _FEEDS) < 1e-6
    sizes = {
        tuple(one.dims) for one in onnx.load(result.model.path).graph.initializer if one.data_type == TensorProto.INT8
    }
    assert (8, 12) in sizes
    assert (12, 8) not in sizes


def test_a_weight_that_others_read_is_not_stored_twice(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["floats"]),
        helper.make_node("Transpose", ["floats"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["y"]),
        helper.make_node("Relu", ["floats"], ["z"]),
    ]
    weights = {"w": _INTEGERS["w"], "scale": np.array(0.1, np.float32), "zero": _INTEGERS["zero"]}
    model = build(tmp_path, nodes, weights, {"x": [2, 8]}, {"y": [2, 12], "z": [12, 8]})
    assert "Transpose" in operators(apply(Clean, model, tmp_path).model)
