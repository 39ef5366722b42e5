"""The isolated passes held to what the author's kit asks of everybody's, unchanged."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from optim import Stage
from optim.testing import PassConformance, models
from optim_inc.quantize_aware_of_accuracy import QuantizeAwareOfAccuracy
from optim_inc.quantize_dynamic import QuantizeDynamic
from optim_inc.quantize_static import QuantizeStatic
from optim_inc.quantize_weights import QuantizeWeights

pytestmark = pytest.mark.slow


class OnEncoder(PassConformance):
    stage = Stage.QUANTIZE

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.encoder(tmp_path)


class TestQuantizeDynamic(OnEncoder):
    max_drift = 0.1

    @pytest.fixture
    def pass_class(self):
        return QuantizeDynamic


class TestQuantizeStatic(OnEncoder):
    max_drift = 0.1

    @pytest.fixture
    def pass_class(self):
        return QuantizeStatic


class TestQuantizeWeights(OnEncoder):
    max_drift = 0.3

    @pytest.fixture
    def pass_class(self):
        return QuantizeWeights


class TestQuantizeAwareOfAccuracy(OnEncoder):
    max_drift = 0.15
    options: ClassVar[dict[str, Any]] = {"tolerable_loss": 0.15, "max_trials": 3}

    @pytest.fixture
    def pass_class(self):
        return QuantizeAwareOfAccuracy
