"""What is said of passes that were named, before the model is run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from feed_models import FLOAT, build, constant, helper, value, write

from optim._engine.jobs import refuse
from optim._engine.plugins.registry import load_registry


@pytest.mark.parametrize(
    ("named", "written_here", "said"),
    [
        ("dense", True, ""),
        ("dens", True, "the model has no node 'dens' that ort.quantize-dynamic could keep: did you mean dense?"),
        (
            "x1",
            True,
            "the model has no node 'x1' that ort.quantize-dynamic could keep: earlier passes may rename nodes",
        ),
        ("x1", False, ""),
    ],
)
def test_a_node_to_keep_that_is_not_there_is_said_at_once(
    tmp_path: Path, named: str, written_here: bool, said: str
) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    weights = [constant("w", np.ones((4, 4), np.float32))]
    model = write(build([node], [value("x", FLOAT, [1, 4])], [value("y", FLOAT, [1, 4])], weights), tmp_path / "m.onnx")
    asked = refuse.NamedOptions("ort.quantize-dynamic", "ort", {"keep": [named]}, written_here)
    answer = refuse.run(refuse.Request(model, load_registry().target("cpu"), (asked,), False), None)
    assert answer.notes == ((said,) if said else ())
    assert answer.inputs == model.inputs
