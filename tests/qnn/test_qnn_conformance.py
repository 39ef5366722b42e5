"""The passes of the plugin ``qnn`` held to what the author's kit asks of everybody's."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from qnn_models import OFFLINE, images, small_net
from rounding import rounding

from optim import Stage
from optim_qnn.htp.backend import OfflineBackend
from optim_qnn.precision.convert_float16 import ConvertFloat16
from optim_qnn.preprocess.preprocess import Preprocess
from optim_qnn.quantize.quantize import Quantize
from optim_testing import PassConformance

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
    """On images of several brightnesses: of noise alone an answer deviates by a sixth of its size, and so much more."""

    max_drift = 0.05  # rounding(3), of three products in a row, is 0.039 of all answers; the worst column has more
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return Quantize

    @pytest.fixture
    def data(self, tmp_path):
        np.savez(tmp_path / "images.npz", **{f"{i}/x": sample["x"] for i, sample in enumerate(images(8))})
        return str(tmp_path / "images.npz")


class TestQuantizeWeightsTo4Bits(TestQuantize):
    """4 bits are 29 % of a weight."""

    max_drift = 0.5
    opset_may_rise = True
    options: ClassVar = {"weights": "int4"}

    def test_what_it_can_keep_is_kept(self, trial, pass_class, chosen, result):
        """Weights keep their 4 bits and round the most; what activations of 8 bits add may also cancel some of that."""
        names = tuple(pass_class().keepable(trial.model, chosen))
        kept = trial.apply(pass_class(), trial.model, chosen.model_copy(update={"keep": names}))
        assert kept.counts["nodes at 16 bits"] == len(names) > 0
        of_activations = rounding(products=3, weights=32)
        assert trial.drift(kept).relative_error <= trial.drift(result).relative_error + of_activations


class TestConvertFloat16(Offline):
    max_drift = 0.01
    stage = Stage.CONVERT_PRECISION

    @pytest.fixture
    def pass_class(self):
        return ConvertFloat16
