"""OpenVINO's backend, target and passes, held to what every one must hold."""

from __future__ import annotations

from typing import ClassVar

import pytest

from optim.testing import BackendConformance, TargetConformance
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.targets import TARGET


class TestOpenVinoBackend(BackendConformance):
    max_drift = 1e-5
    plugin = "openvino"

    @pytest.fixture
    def backend_class(self):
        return OpenVinoBackend

    @pytest.fixture
    def target(self):
        return TARGET


class TestOpenVino(TargetConformance):
    plugin = "openvino"
    settings: ClassVar = {"device": "CPU", "threads": "1", "streams": "1"}

    @pytest.fixture
    def target(self):
        return TARGET

    @pytest.fixture
    def backend_class(self):
        return OpenVinoBackend
