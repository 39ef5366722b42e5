"""A whole run with adapters: gated with the adapter and without, delivered and loaded."""

from __future__ import annotations

import numpy as np
import pytest
from adapter_models import adapted_model, adapter_weights, reference

import optim

pytestmark = pytest.mark.usefixtures("jobs_here", "counted_clock")


def test_a_run_delivers_the_model_and_its_adapter_and_holds_it_without_one_too(tmp_path):
    asked = {"passes": ("adapters.extract",), "stages": ("fuse",), "lossless": True, "search_seconds": 20}
    report = optim.run(adapted_model(tmp_path), tmp_path / "out", **asked)
    assert report.result is not None, report.reason
    assert {one.name for one in report.result.outputs} == {"y", "without an adapter: y"}
    session = optim.load(tmp_path / "out", adapter=tmp_path / "out" / "default.onnx_adapter")
    x = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)
    for adapter, weights in ((None, adapter_weights("lora")), ((), None)):
        found = session.run(None, {"x": x}, adapter=adapter)[0]
        np.testing.assert_allclose(found, reference(x, weights), atol=1e-5, rtol=1e-5)
