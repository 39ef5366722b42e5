"""Which operators do a model's work, from its graph alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim.onnx.operators import share_within_reach, work_shares


def shares(folder: Path, nodes: list[onnx.NodeProto], **weights: tuple[int, ...]) -> dict[str, float]:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    constants = [numpy_helper.from_array(np.zeros(shape, np.float32), name) for name, shape in weights.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph), folder / "m.onnx")
    return work_shares(folder / "m.onnx")


def test_a_weight_counts_where_it_is_turned_on_its_way(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("Cast", ["t"], ["c"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "c"], ["h"]),
        helper.make_node("MatMul", ["h", "h"], ["a"]),
        helper.make_node("Conv", ["a", "k"], ["y"]),
    ]
    found = shares(tmp_path, nodes, w=(49, 10), k=(5, 2, 1, 1))
    assert found == {"MatMul": pytest.approx(0.5), "Conv": pytest.approx(0.5)}


def test_a_product_of_what_the_model_is_given_is_no_work_with_weights(tmp_path: Path) -> None:
    assert shares(tmp_path, [helper.make_node("MatMul", ["x", "x"], ["y"])]) == {}


def test_products_that_a_fusion_takes_in_are_out_of_reach_and_those_that_are_gone_are_not(tmp_path: Path) -> None:
    def saved(name: str, nodes: list[onnx.NodeProto], **weights: tuple[int, ...]) -> Path:
        shares(tmp_path, nodes, **weights)
        return (tmp_path / "m.onnx").rename(tmp_path / f"{name}.onnx")

    def product(read: str, weight: str, made: str) -> onnx.NodeProto:
        return helper.make_node("MatMul", [read, weight], [made])

    def contrib(operator: str, *read: str) -> onnx.NodeProto:
        return helper.make_node(operator, list(read), ["y"], domain="com.microsoft")

    plain = saved("plain", [product("x", "w", "h"), product("h", "v", "y")], w=(8, 8), v=(8, 24))
    packed = saved("packed", [product("x", "w", "h"), contrib("Attention", "h", "v")], w=(8, 8), v=(8, 24))
    gone = saved("gone", [product("x", "w", "h"), contrib("Gelu", "h")], w=(8, 8))
    looked_up = [product("x", "w", "h"), product("h", "v", "a"), contrib("EmbedLayerNormalization", "a", "e")]
    words = saved("words", looked_up, w=(8, 8), v=(8, 24), e=(100, 8))
    assert share_within_reach(plain, packed) == 0.25
    assert [share_within_reach(plain, after) for after in (plain, gone, words)] == [1.0, 1.0, 1.0]
    assert share_within_reach(gone, saved("none", [contrib("Gelu", "x")])) == 1.0
