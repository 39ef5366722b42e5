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

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optim.testing import models
    from optim.testing.installation import Installed, installed
    from optim.testing.kits.backends import BackendConformance
    from optim.testing.kits.commands import CommandConformance
    from optim.testing.kits.exporters import ExporterConformance
    from optim.testing.kits.layouts import LayoutConformance
    from optim.testing.kits.metrics import MetricConformance, MetricSample
    from optim.testing.kits.passes import PassConformance
    from optim.testing.kits.source_passes import SourcePassConformance
    from optim.testing.kits.targets import TargetConformance
    from optim.testing.trial import Trial

__all__ = [
    "BackendConformance",
    "CommandConformance",
    "ExporterConformance",
    "Installed",
    "LayoutConformance",
    "MetricConformance",
    "MetricSample",
    "PassConformance",
    "SourcePassConformance",
    "TargetConformance",
    "Trial",
    "installed",
    "models",
]

_HOMES = {
    "BackendConformance": "optim.testing.kits.backends",
    "CommandConformance": "optim.testing.kits.commands",
    "ExporterConformance": "optim.testing.kits.exporters",
    "Installed": "optim.testing.installation",
    "LayoutConformance": "optim.testing.kits.layouts",
    "MetricConformance": "optim.testing.kits.metrics",
    "MetricSample": "optim.testing.kits.metrics",
    "PassConformance": "optim.testing.kits.passes",
    "SourcePassConformance": "optim.testing.kits.source_passes",
    "TargetConformance": "optim.testing.kits.targets",
    "Trial": "optim.testing.trial",
    "installed": "optim.testing.installation",
}


def __getattr__(name: str) -> Any:
    if name == "models":
        return importlib.import_module("optim.testing.models")
    if name not in _HOMES:
        raise AttributeError(f"module 'optim.testing' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
