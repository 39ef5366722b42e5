"""Volt's backend and pass, held to what every backend and pass must hold."""

from __future__ import annotations

import pytest
from optim_volt.backend import TARGET, VoltBackend
from optim_volt.compile_pass import Compile

from optim import Stage
from optim_testing import BackendConformance, PassConformance, models


class TestVoltBackend(BackendConformance):
    max_drift = 1e-5
    plugin = "volt"

    @pytest.fixture
    def backend_class(self):
        return VoltBackend

    @pytest.fixture
    def target(self):
        return TARGET


class TestCompile(PassConformance):
    max_drift = 1e-6
    stage = Stage.POST_PROCESS

    @pytest.fixture
    def pass_class(self):
        return Compile

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.mlp(tmp_path)

    @pytest.fixture
    def nothing_to_do(self, tmp_path):
        return models.encoder(tmp_path)
