"""Feeds that a user gives, and how they are refused."""

from __future__ import annotations

import numpy as np
import pytest
from feed_models import FLOAT, build, helper, value, write

from optim._engine.feeds.sources import load_feeds
from optim.errors import OptimError


def sample(length=5, batch=1, **changed):
    arrays = {
        "input_ids": np.arange(batch * length).reshape(batch, length),
        "attention_mask": np.ones((batch, length), np.int64),
        "token_type_ids": np.zeros((batch, length), np.int64),
    }
    return {name: array for name, array in {**arrays, **changed}.items() if array is not None}


def load(tmp_path, model, arrays=None, spec=None):
    if spec is None:
        spec = tmp_path / "given.npz"
        np.savez(spec, **(sample() if arrays is None else arrays))
    return load_feeds(str(spec), model, tmp_path / "feeds", seed=0)


def refused(tmp_path, model, arrays=None, spec=None) -> OptimError:
    with pytest.raises(OptimError) as caught:
        load(tmp_path, model, arrays, spec)
    assert caught.value.cause
    assert caught.value.fix
    assert not (tmp_path / "feeds").exists()
    assert not list(tmp_path.glob(".feeds*"))
    return caught.value


def negation(tmp_path):
    node = helper.make_node("Neg", ["x"], ["y"])
    return write(build([node], [value("x", FLOAT, [2])], [value("y", FLOAT, [2])]), tmp_path / "m.onnx")
