"""The author's kit: a conformance class for each thing that a plugin offers, and tiny real models.

    from optim.testing import PassConformance, models

    class TestShrink(PassConformance):
        max_drift = 1e-5

        @pytest.fixture
        def pass_class(self):
            return Shrink

        @pytest.fixture
        def model_path(self, tmp_path):
            return models.mlp(tmp_path)

Needs pytest, and onnxruntime unless the class brings a backend of its own. Everything is imported when first used:
pytest loads this package at its start, in every project that has optim-core beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.testing.installation import Installed as Installed
    from optim.testing.installation import installed as installed
    from optim.testing.kits.backends import BackendConformance as BackendConformance
    from optim.testing.kits.commands import CommandConformance as CommandConformance
    from optim.testing.kits.exporters import ExporterConformance as ExporterConformance
    from optim.testing.kits.layouts import LayoutConformance as LayoutConformance
    from optim.testing.kits.metrics import MetricConformance as MetricConformance
    from optim.testing.kits.metrics import MetricSample as MetricSample
    from optim.testing.kits.passes import PassConformance as PassConformance
    from optim.testing.kits.source_passes import SourcePassConformance as SourcePassConformance
    from optim.testing.kits.targets import TargetConformance as TargetConformance
    from optim.testing.offered import StageConformance as StageConformance
    from optim.testing.trial import Trial as Trial
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
