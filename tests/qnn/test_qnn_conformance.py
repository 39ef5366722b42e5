"""The passes of the plugin ``qnn`` held to what the author's kit asks of everybody's."""

from __future__ import annotations

from typing import ClassVar

import onnx
import pytest
from qnn_models import OFFLINE, small_net

from optim import Stage
from optim.testing import PassConformance, models
from optim_qnn.htp.backend import OfflineBackend
from optim_qnn.precision.convert_float16 import ConvertFloat16
from optim_qnn.preprocess.preprocess import Preprocess
from optim_qnn.quantize.quantize import Quantize

pytestmark = pytest.mark.slow


class Offline(PassConformance):
    """In the model's own precision: HTP rounds more than these passes may."""

    @pytest.fixture
    def target(self):
        return OFFLINE

    @pytest.fixture
    def backend(self):
        return OfflineBackend()

    @pytest.fixture
    def model_path(self, tmp_path):
        return small_net(tmp_path).path


class TestPreprocess(Offline):
    """On a model of fixed shapes: fixing them changes the inputs on purpose."""

    max_drift = 1e-5
    fires_on_everything = True

    @pytest.fixture
    def pass_class(self):
        return Preprocess


class TestQuantize(Offline):
    max_drift = 0.1  # 8 bits are 2 % of an operand, and this model's answers deviate by a fifth of their size
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return Quantize


class TestQuantizeWeightsTo4Bits(TestQuantize):
    """On a model whose answers deviate by most of their size, so that 4 bits tell them apart."""

    max_drift = 0.5
    opset_may_rise = True
    options: ClassVar = {"weights": "int4"}

    @pytest.fixture
    def model_path(self, tmp_path):
        proto = onnx.load(models.mlp(tmp_path))
        for value in (*proto.graph.input, *proto.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 1
        onnx.save(proto, tmp_path / "fixed.onnx")
        return tmp_path / "fixed.onnx"

    def test_what_it_can_keep_is_kept(self, trial, pass_class, chosen, result):
        """Weights keep their 4 bits and round the most, so 16 bits of activations gain or lose by chance alone."""
        names = tuple(pass_class().keepable(trial.model, chosen))
        kept = trial.apply(pass_class(), trial.model, chosen.model_copy(update={"keep": names}))
        assert kept.counts["nodes at 16 bits"] == len(names) > 0
        assert trial.drift(kept).relative_error <= self.max_drift


class TestConvertFloat16(Offline):
    max_drift = 0.01
    stage = Stage.CONVERT_PRECISION

    @pytest.fixture
    def pass_class(self):
        return ConvertFloat16
