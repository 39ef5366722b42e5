"""What is said of passes that were named, before the model is run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from feed_models import FLOAT, build, constant, helper, value, write

from optim import APPLICABLE, Pass, PassOptions, Role, Target
from optim._engine.jobs import refuse
from optim._engine.plugins.registry import load_registry
from optim.onnx import fixed_inputs


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


class FixesBatch(Pass):
    name = "vendor.fix-batch"
    role = Role.REQUESTED

    def applicable(self, model, target):
        return APPLICABLE

    def inputs_for(self, options, model):
        return fixed_inputs(model.inputs, {"batch": 1})

    def apply(self, model, options, context):
        raise NotImplementedError


class ProposesBatches(FixesBatch):
    def candidates(self, model, target, context):
        return [PassOptions()]


@pytest.mark.parametrize(
    ("pass_class", "required", "batch"),
    [(FixesBatch, False, 1), (FixesBatch, True, 1), (ProposesBatches, False, "batch"), (ProposesBatches, True, 1)],
)
def test_sizes_are_asked_of_a_pass_without_options_unless_it_proposes_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_class: type[Pass], required: bool, batch: int | str
) -> None:
    offered = SimpleNamespace(over_models=pass_class, name=pass_class.name, plugin=SimpleNamespace(release="vendor 1"))
    registry = SimpleNamespace(find_pass=lambda name, target: offered)
    monkeypatch.setattr(refuse, "load_registry", lambda only: registry)
    node = helper.make_node("Relu", ["x"], ["y"])
    model = write(
        build([node], [value("x", FLOAT, ["batch", 4])], [value("y", FLOAT, ["batch", 4])]), tmp_path / "m.onnx"
    )
    asked = refuse.NamedOptions(pass_class.name, "vendor", None, required=required)
    answer = refuse.run(refuse.Request(model, Target("vendor", "vendor"), (asked,), False), None)
    assert answer.inputs[0].shape == (batch, 4)
    assert answer.fixing == (pass_class.name,)
