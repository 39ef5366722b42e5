"""The passes of the plugin ``qnn`` held to what the author's kit asks of everybody's."""

from __future__ import annotations

from typing import ClassVar

import pytest
from qnn_models import BACKEND, QNN, on_htp, small_net

from optim import Stage
from optim.backend import Backend
from optim.testing import PassConformance
from optim_qnn.float16 import ConvertFloat16
from optim_qnn.preprocess import Preprocess
from optim_qnn.quantize import Quantize


class InFloat(Backend):
    """What the model says, in its own precision: passes that HTP's rounding would hide behind are compared so."""

    name = "in-float"

    def open(self, model, target):
        return BACKEND.open_reference(model, target)

    def limits(self):
        return BACKEND.limits()

    def versions(self):
        return BACKEND.versions()


@on_htp
class OnHtp(PassConformance):
    @pytest.fixture
    def target(self):
        return QNN

    @pytest.fixture
    def backend(self):
        return InFloat()

    @pytest.fixture
    def model_path(self, tmp_path):
        return small_net(tmp_path).path


class TestPreprocess(OnHtp):
    """On a model of fixed shapes: fixing them changes the inputs on purpose."""

    max_drift = 1e-5
    fires_on_everything = True

    @pytest.fixture
    def pass_class(self):
        return Preprocess


class TestQuantize(OnHtp):
    max_drift = 0.05
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return Quantize


class TestQuantizeWeightsTo4Bits(TestQuantize):
    max_drift = 0.5
    opset_may_rise = True
    options: ClassVar = {"weights": "int4"}


class TestConvertFloat16(OnHtp):
    max_drift = 0.01
    stage = Stage.CONVERT_PRECISION

    @pytest.fixture
    def pass_class(self):
        return ConvertFloat16
