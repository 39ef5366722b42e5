"""A linear layer whose weight lies where a test wants it, and what refusing it must look like."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from feed_models import FLOAT, build, constant, helper, value
from onnx import TensorProto

from optim._engine.graphs.ingest import ingest
from optim.errors import ExitStatus, OptimError

WEIGHT = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)


def linear(weight: TensorProto | None = None) -> onnx.ModelProto:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="head")
    inputs, outputs = [value("x", FLOAT, ["n", 64])], [value("y", FLOAT, ["n", 32])]
    return build([node], inputs, outputs, [weight or constant("w", WEIGHT)])


def external(location: str, *, offset=0, length: int | None = WEIGHT.nbytes) -> onnx.ModelProto:
    tensor = TensorProto(name="w", dims=WEIGHT.shape, data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    places = {"location": location, "offset": offset, "length": length}
    for key, entry in places.items():
        if entry is not None:
            tensor.external_data.add(key=key, value=str(entry))
    return linear(tensor)


def refused(path: Path, store: Path) -> OptimError:
    with pytest.raises(OptimError) as caught:
        ingest(path, store)
    assert caught.value.status is ExitStatus.BAD_INPUT
    assert str(path.name) in caught.value.what
    assert caught.value.cause
    assert caught.value.fix
    assert not store.exists() or not list(store.iterdir())
    return caught.value
