"""OpenVINO's backend, target and passes, held to what every one must hold."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import onnx
import pytest

from optim import OptimError, Stage
from optim_openvino.deploy import save_ir
from optim_openvino.deploy.save_ir import SaveIr
from optim_openvino.precision.precision import Precision
from optim_openvino.quantize.compress_weights import CompressWeights
from optim_openvino.quantize.quantize import Quantize
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.core import capabilities
from optim_openvino.runtime.targets import TARGET
from optim_openvino.tune.tune import Tune
from optim_testing import BackendConformance, PassConformance, TargetConformance, Trial, models

pytestmark = pytest.mark.slow


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


class OnOpenVino(PassConformance):
    """What its passes share: a small encoder, run by OpenVINO."""

    __test__ = False

    @pytest.fixture
    def target(self):
        return TARGET

    @pytest.fixture
    def backend(self):
        return OpenVinoBackend()

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.encoder(tmp_path)


class TestQuantize(OnOpenVino):
    __test__ = True
    max_drift = 0.05
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return Quantize


class TestCompressWeights(OnOpenVino):
    __test__ = True
    max_drift = 0.05
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return CompressWeights


class TestSaveIr(OnOpenVino):
    __test__ = True
    max_drift = 1e-6
    stage = Stage.POST_PROCESS
    fires_on_everything = True

    @pytest.fixture
    def pass_class(self):
        return SaveIr


class TestPrecision(OnOpenVino):
    __test__ = True
    max_drift = 0.02
    stage = Stage.CONVERT_PRECISION
    fires_on_everything = True

    @pytest.fixture
    def pass_class(self):
        if not {"BF16", "FP16"} & capabilities("CPU"):
            pytest.skip("this processor has neither bfloat16 nor float16")
        return Precision


class TestTune(OnOpenVino):
    __test__ = True
    max_drift = 1e-6
    stage = Stage.TUNE
    options: ClassVar = {"threads": 1}
    fires_on_everything = True

    @pytest.fixture
    def pass_class(self):
        return Tune


def test_an_ir_that_computes_something_else_is_not_handed_over(tmp_path, monkeypatch):
    def write_other(model, path, *, compress):
        proto = onnx.load(model.path)
        (weight,) = (one for one in proto.graph.initializer if one.name == "w2")
        weight.CopyFrom(onnx.numpy_helper.from_array(1.01 * onnx.numpy_helper.to_array(weight, str(tmp_path)), "w2"))
        onnx.save(proto, tmp_path / "other.onnx")
        write_ir(replace(model, path=tmp_path / "other.onnx"), path, compress=compress)

    write_ir = save_ir.write_ir
    monkeypatch.setattr(save_ir, "write_ir", write_other)
    trial = Trial.of(models.encoder(tmp_path), tmp_path / "trial", TARGET, OpenVinoBackend())
    with pytest.raises(OptimError) as caught:
        trial.apply(SaveIr(), trial.model, trial.options(SaveIr, {}))
    assert caught.value.reference == "ir-differs"
