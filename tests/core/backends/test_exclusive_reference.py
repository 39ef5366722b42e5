"""A device that takes one session at a time, and the session that says what counts as right: never both at once."""

from __future__ import annotations

import numpy as np
import pytest
import runtimes_plugin
from timed_models import write_network

from optim._engine.backends.held import HeldBackend
from optim.onnx.files import describe_model

FEEDS = {"x": np.ones((6, 96), np.float32)}


class OneSession(runtimes_plugin.OwnSession):
    """Counts what is open."""

    most, now = 0, 0

    def __init__(self, model):
        super().__init__(model)
        OneSession.now += 1
        OneSession.most = max(OneSession.most, OneSession.now)

    def close(self):
        super().close()
        OneSession.now -= 1


class OneDevice(runtimes_plugin.Own):
    """Takes one session, and so does its reference, on the same device."""

    name, exclusive, session = "own-one", True, OneSession

    def open_reference(self, model, target):
        return self.session(model)


@pytest.mark.usefixtures("jobs_here")
def test_an_exclusive_device_and_its_reference_are_not_open_at_the_same_time(tmp_path):
    write_network(tmp_path / "model.onnx", {"a": 1})
    model, target = describe_model(tmp_path / "model.onnx"), runtimes_plugin.target("own-one")
    held = HeldBackend(OneDevice, "optim-test-runtimes 1.0")
    OneSession.most = 0
    with held.open(model, target) as session:
        first = session.run(FEEDS)["y"]
        with held.open_reference(model, target) as reference:
            reference.run(FEEDS)
        assert np.array_equal(session.run(FEEDS)["y"], first)
    assert (OneSession.most, OneSession.now) == (1, 0)
