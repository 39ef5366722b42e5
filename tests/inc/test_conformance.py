"""The isolated passes held to what the author's kit asks of everybody's, unchanged."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

from optim import Stage
from optim_inc.quantize_aware_of_accuracy import QuantizeAwareOfAccuracy
from optim_inc.quantize_dynamic import QuantizeDynamic
from optim_inc.quantize_static import QuantizeStatic
from optim_inc.quantize_weights import QuantizeWeights
from optim_testing import PassConformance, models

pytestmark = pytest.mark.slow


WIDE = pytest.mark.wide
"""For passes whose job is that of TestQuantizeDynamic, with other words for neural-compressor."""


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


@WIDE
class TestQuantizeStatic(OnEncoder):
    max_drift = 0.1

    @pytest.fixture
    def pass_class(self):
        return QuantizeStatic


@WIDE
class TestQuantizeWeights(OnEncoder):
    max_drift = 0.3

    @pytest.fixture
    def pass_class(self):
        return QuantizeWeights


class TestQuantizeAwareOfAccuracy(OnEncoder):
    """On samples of one size: tuning calibrates on those alone that have equal shapes, and would clip the others."""

    max_drift = 0.05  # 8 bits are 2.2 % of a product, and five lie one behind the other: 2.2 % times the root of five
    options: ClassVar[dict[str, Any]] = {"tolerable_loss": 0.05, "max_trials": 3}

    @pytest.fixture
    def data(self, tmp_path):
        rng = np.random.default_rng(0)
        words = {f"{i}/input_ids": rng.integers(0, 50, (2, 16)) for i in range(8)}
        masks = {f"{i}/attention_mask": np.ones((2, 16), np.int64) for i in range(8)}
        np.savez(tmp_path / "equal.npz", **words, **masks)
        return str(tmp_path / "equal.npz")

    @pytest.fixture
    def pass_class(self):
        return QuantizeAwareOfAccuracy
