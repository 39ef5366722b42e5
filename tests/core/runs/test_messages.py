"""What a run says of a model that does not run names the user's file."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from feed_models import FLOAT, build, constant, helper, value

import optim
from optim.errors import OptimError


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))


def test_feeds_that_cannot_be_made_up_are_those_of_the_users_file(tmp_path):
    path = tmp_path / "speech.onnx"
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    shape = constant("shape", np.array([7, 13, 99991]))
    onnx.save(build([node], [value("x", FLOAT, ["n"])], [value("y", FLOAT, [7, 13, 99991])], [shape]), path)
    with pytest.raises(OptimError) as caught:
        optim.run(path, tmp_path / "out")
    assert caught.value.reference == "feeds-not-found"
    assert caught.value.what == "optim cannot synthesize inputs on which speech.onnx runs"


def test_what_the_runtime_refuses_is_the_users_file(tmp_path):
    path = tmp_path / "numbers.onnx"
    node = helper.make_node("Mod", ["x", "x"], ["y"], fmod=1)
    bits = onnx.TensorProto.BFLOAT16
    onnx.save(build([node], [value("x", bits, [2])], [value("y", bits, [2])]), path)
    with pytest.raises(OptimError) as caught:
        optim.run(path, tmp_path / "out")
    assert caught.value.reference == "session-failed"
    assert "numbers.onnx" in caught.value.cause
