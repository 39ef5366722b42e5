"""Acme's passes held to what every pass must hold."""

from __future__ import annotations

import onnx
import pytest
from optim_acme.passes import DropPairs, Round, Threads
from optim_acme.plugin import TARGET, AcmeBackend

from optim import Stage
from optim_testing import PassConformance, models


class OnAcme(PassConformance):
    @pytest.fixture
    def target(self):
        return TARGET

    @pytest.fixture
    def backend(self):
        return AcmeBackend()

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.mlp(tmp_path)


class TestDropPairs(OnAcme):
    max_drift = 1e-6

    @pytest.fixture
    def pass_class(self):
        return DropPairs

    @pytest.fixture
    def model_path(self, tmp_path):
        model = onnx.load(models.mlp(tmp_path))
        (product,) = [node for node in model.graph.node if node.op_type == "MatMul"]
        product.input[0] = "twice"
        for source, result in (("once", "twice"), ("x", "once")):
            model.graph.node.insert(0, onnx.helper.make_node("Neg", [source], [result], name=f"Neg_{result}"))
        onnx.save(model, tmp_path / "negated.onnx")
        return tmp_path / "negated.onnx"


class TestRound(OnAcme):
    max_drift = 0.05
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return Round


class TestThreads(OnAcme):
    max_drift = 1e-5
    stage = Stage.TUNE
    fires_on_everything = True

    @pytest.fixture
    def pass_class(self):
        return Threads
