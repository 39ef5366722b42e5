"""The author's kit: conformance classes for passes and backends, tiny real models, and what both are made of.

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
    from optim.testing.backend_conformance import BackendConformance
    from optim.testing.conformance import PassConformance
    from optim.testing.installation import Installed, installed
    from optim.testing.trial import Trial

__all__ = ["BackendConformance", "Installed", "PassConformance", "Trial", "installed", "models"]

_HOMES = {
    "BackendConformance": "optim.testing.backend_conformance",
    "Installed": "optim.testing.installation",
    "PassConformance": "optim.testing.conformance",
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
