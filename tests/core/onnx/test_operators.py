"""Which operators do a model's work, from its graph alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim.onnx.operators import work_by_weight, work_shares


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
    by_weight = work_by_weight(tmp_path / "m.onnx")
    assert by_weight == {"MatMul 10x49": pytest.approx(0.5), "Conv 1x1x2x5": pytest.approx(0.5)}


def test_a_product_of_what_the_model_is_given_is_no_work_with_weights(tmp_path: Path) -> None:
    assert shares(tmp_path, [helper.make_node("MatMul", ["x", "x"], ["y"])]) == {}
