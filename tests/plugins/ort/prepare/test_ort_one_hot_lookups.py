"""``ort.clean``: rows of a weight in place of products with one-hot matrices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ort_models import apply, operators, parsed, relative_l2

from optim import Model
from optim_plugins.ort.prepare.clean import Clean

WEIGHT = "float[3, 2] w = {1, 2, 3, 4, 5, -0.7}"
NODES = """
    last = Constant <value_ints = [-1]> ()
    ids = Unsqueeze (x, last)
    same = Equal (ids, counted)
    hot = Cast <to = 1> (same)
"""


def _model(
    folder: Path, nodes: str = NODES, counted: str = "int32[1, 3] counted = {0, 1, 2}", opset: int = 17
) -> Model:
    head = f'<opset_import: ["": {opset}], ir_version: 8> g (int32[a, b] x) => (float[a, b, 2] y) <{WEIGHT}, {counted}>'
    return parsed(folder, f"{head} {{ {nodes} y = MatMul (hot, w) }}")


def test_a_product_with_a_one_hot_matrix_takes_rows_by_number(tmp_path: Path) -> None:
    model = _model(tmp_path)
    result = apply(Clean, model, tmp_path)
    assert result.counts["one-hot products"] == 1
    assert "MatMul" not in operators(result.model)
    for numbers in ([[0, 1, 2], [2, 2, 0]], [[-1, 3, -3], [2**31 - 1, -(2**31), 1]]):
        assert relative_l2(model, result.model, {"x": np.array(numbers, np.int32)}) == 0
    assert not apply(Clean, result.model, tmp_path).changed


@pytest.mark.parametrize(
    ("nodes", "counted", "opset"),
    [
        (NODES, "int32[1, 3] counted = {0, 2, 1}", 17),
        (NODES, "int32[3, 1, 3] counted = {0, 1, 2, 0, 1, 2, 0, 1, 2}", 17),
        (NODES.replace("Unsqueeze (x, last)", "Add (x, x)"), "int32[1, 3] counted = {0, 1, 2}", 17),
        (NODES.replace("hot = Cast", "h = Cast") + "hot = Neg (h)", "int32[1, 3] counted = {0, 1, 2}", 17),
    ],
    ids=["in another order", "with more axes", "of unknown columns", "not as it is"],
)
def test_what_is_no_one_hot_matrix_is_multiplied(nodes: str, counted: str, opset: int, tmp_path: Path) -> None:
    result = apply(Clean, _model(tmp_path, nodes, counted, opset), tmp_path)
    assert "one-hot products" not in result.counts
    assert "MatMul" in operators(result.model)
