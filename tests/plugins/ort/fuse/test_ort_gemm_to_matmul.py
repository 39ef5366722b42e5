"""``ort.gemm-to-matmul``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper
from ort_models import (
    CPU,
    apply,
    build,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    proto,
    random_weight,
    relative_l2,
)

from optim import Model, Role
from optim_plugins.ort.prepare.gemm_to_matmul import GemmToMatMul

_FEEDS = {"x": random_weight(5, 16, seed=9)}


def _gemm(folder: Path, *, bias: tuple[int, ...] | None = (24,), **attributes: Any) -> Model:
    transposed = bool(attributes.get("transB"))
    weights = {"w": random_weight(24, 16) if transposed else random_weight(16, 24)}
    if bias is not None:
        weights["b"] = random_weight(*bias, seed=1)
    node = helper.make_node("Gemm", ["x", *weights], ["y"], name="dense", **attributes)
    return build(folder, [node], weights, {"x": ["n", 16]}, {"y": ["n", 24]})


@pytest.mark.parametrize("bias", [(24,), (1, 24), (1,), (), (5, 24)])
@pytest.mark.parametrize("transposed", [0, 1])
def test_a_plain_gemm_becomes_matmul_and_add(bias: tuple[int, ...], transposed: int, tmp_path: Path) -> None:
    model = _gemm(tmp_path, bias=bias, transB=transposed)
    result = apply(GemmToMatMul, model, tmp_path)
    assert operators(result.model) == ["MatMul", "Add"]
    assert result.counts == {"Gemm": 1, "weights transposed": transposed}
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert proto(result.model).graph.node[0].name == "dense"
    assert relative_l2(model, result.model, _FEEDS) <= 1e-6


def test_without_a_bias_it_is_a_matmul_alone(tmp_path: Path) -> None:
    result = apply(GemmToMatMul, _gemm(tmp_path, bias=None), tmp_path)
    assert operators(result.model) == ["MatMul"]


def test_a_weight_that_two_read_transposed_is_written_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gemm", ["x", "w"], ["a"], name="one", transB=1),
        helper.make_node("Gemm", ["a", "w"], ["y"], name="two", transB=1),
    ]
    model = build(tmp_path, nodes, {"w": random_weight(16, 16)}, {"x": ["n", 16]}, {"y": ["n", 16]})
    result = apply(GemmToMatMul, model, tmp_path)
    assert [value.name for value in proto(result.model).graph.initializer] == ["w_transposed"]
    assert relative_l2(model, result.model, _FEEDS) <= 1e-6


@pytest.mark.parametrize("attributes", [{"alpha": 0.5}, {"beta": 2.0}, {"transA": 1}])
def test_a_gemm_with_factors_is_declined_with_its_reason(attributes: dict[str, Any], tmp_path: Path) -> None:
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["y"], **attributes)]
    weights = {"w": random_weight(16, 16), "b": random_weight(16)}
    model = build(tmp_path, nodes, weights, {"x": [16, 16]}, {"y": [16, 16]})
    applicable = GemmToMatMul().applicable(model, CPU)
    assert not applicable
    assert applicable.reason == "no Gemm with a constant weight and alpha = beta = 1"
    result = apply(GemmToMatMul, model, tmp_path)
    assert not result.changed
    assert result.notes == (applicable.reason,)


def test_a_weight_that_is_computed_is_left_alone(tmp_path: Path) -> None:
    nodes = [helper.make_node("Tanh", ["w"], ["v"]), helper.make_node("Gemm", ["x", "v"], ["y"])]
    model = build(tmp_path, nodes, {"w": random_weight(16, 16)}, {"x": [2, 16]}, {"y": [2, 16]})
    assert not GemmToMatMul().applicable(model, CPU)


def test_a_second_time_there_is_none_left(tmp_path: Path) -> None:
    result = apply(GemmToMatMul, _gemm(tmp_path), tmp_path)
    assert not GemmToMatMul().applicable(result.model, CPU)


@pytest.mark.parametrize("name", ["gpt2.dynamo", "gpt2.ts", "bert.ts", "convnet.dynamo"])
def test_exports_compute_the_same(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    result = apply(GemmToMatMul, model, tmp_path)
    assert "Gemm" not in operators(result.model)
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert relative_l2(model, result.model, feeds_for(name)) <= 1e-6


def test_weights_of_two_branches_with_one_name_are_not_mixed_up(tmp_path: Path) -> None:
    def branch(seed: int) -> Any:
        tensor = helper.make_tensor("w", 1, [16, 16], random_weight(16, 16, seed=seed).ravel())
        node = helper.make_node("Gemm", ["x", "w"], ["r"], transB=1)
        return helper.make_graph([node], f"b{seed}", [], [helper.make_tensor_value_info("r", 1, None)], [tensor])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2)),
    ]
    model = build(tmp_path, nodes, {"zero": np.array(0, np.float32)}, {"x": [2, 16]}, {"y": [2, 16]})
    result = apply(GemmToMatMul, model, tmp_path)
    assert result.counts["Gemm"] == 2
    for sign in (1, -1):
        feeds = {"x": sign * np.abs(random_weight(2, 16, seed=3))}
        assert relative_l2(model, result.model, feeds) <= 1e-6


def test_it_only_makes_way_for_others() -> None:
    assert GemmToMatMul.role is Role.ENABLE
    assert not GemmToMatMul.lossy
    assert "ort.quantize-dynamic" in GemmToMatMul.before
