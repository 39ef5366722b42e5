"""Nodes that compute as in training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from feed_models import FLOAT, build, constant, helper, value, write

from optim._engine.graphs.node_lookup import training_node

_TRUE, _FALSE = constant("flag", np.array(True)), constant("flag", np.array(False))
_NORMALIZE = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y", "mean", "var"], name="norm", training_mode=1)
_EVALUATED = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"], name="norm")
_DROPOUT = helper.make_node("Dropout", ["x", "", "flag"], ["y"], name="drop")
_CONSTANT = helper.make_node("Constant", [], ["flag"], value=_TRUE)


@pytest.mark.parametrize(
    ("nodes", "weights", "found"),
    [
        ([_DROPOUT], [_TRUE], "Dropout 'drop'"),
        ([_CONSTANT, _DROPOUT], [], "Dropout 'drop'"),
        ([_DROPOUT], [_FALSE], ""),
        ([helper.make_node("Dropout", ["x"], ["y"])], [], ""),
        ([_NORMALIZE], [constant(name, np.ones(4, np.float32)) for name in "sbmv"], "BatchNormalization 'norm'"),
        ([_EVALUATED], [constant(name, np.ones(4, np.float32)) for name in "sbmv"], ""),
    ],
)
def test_they_are_named(tmp_path: Path, nodes: list[object], weights: list[object], found: str) -> None:
    ports = [[value(name, FLOAT, [2, 4])] for name in "xy"]
    assert training_node(write(build(nodes, *ports, weights), tmp_path / "m.onnx").path) == found
