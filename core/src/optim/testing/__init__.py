"""The author's kit: a conformance class to subclass, tiny real models, and what both are made of.

    from optim.testing import PassConformance, models

    class TestShrink(PassConformance):
        max_drift = 1e-5

        @pytest.fixture
        def pass_class(self):
            return Shrink

        @pytest.fixture
        def model_path(self, tmp_path):
            return models.mlp(tmp_path)

Needs pytest, and onnxruntime unless the class brings a backend of its own.
"""

from __future__ import annotations

from optim.testing import models
from optim.testing.conformance import PassConformance
from optim.testing.trial import Trial

__all__ = ["PassConformance", "Trial", "models"]
