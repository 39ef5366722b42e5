"""The author's kit: a conformance class for each thing that a plugin offers, and tiny real models.

    from optim_testing import PassConformance, models

    class TestShrink(PassConformance):
        max_drift = 1e-5

        @pytest.fixture
        def pass_class(self):
            return Shrink

        @pytest.fixture
        def model_path(self, tmp_path):
            return models.mlp(tmp_path)

Needs pytest, and onnxruntime unless the class brings a backend of its own. Everything is imported when first used:
pytest loads this package at its start, in every project that has optim-testing beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim.engine.testing import hand_on

if TYPE_CHECKING:
    from optim_testing.installation import Installed as Installed
    from optim_testing.installation import installed as installed
    from optim_testing.kits.backends import BackendConformance as BackendConformance
    from optim_testing.kits.commands import CommandConformance as CommandConformance
    from optim_testing.kits.exporters import ExporterConformance as ExporterConformance
    from optim_testing.kits.layouts import LayoutConformance as LayoutConformance
    from optim_testing.kits.metrics import MetricConformance as MetricConformance
    from optim_testing.kits.metrics import MetricSample as MetricSample
    from optim_testing.kits.passes import PassConformance as PassConformance
    from optim_testing.kits.source_passes import SourcePassConformance as SourcePassConformance
    from optim_testing.kits.targets import TargetConformance as TargetConformance
    from optim_testing.offered import StageConformance as StageConformance
    from optim_testing.trial import Trial as Trial
else:
    __getattr__, __dir__, __all__ = hand_on(__name__)
