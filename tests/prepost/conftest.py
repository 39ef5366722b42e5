from __future__ import annotations

from pathlib import Path

import pytest

from optim import Target
from optim.onnxruntime_backend import OnnxRuntimeBackend

ROOT = Path(__file__).parents[2]
NPM = ROOT / ".cache" / "npm"


class Cpu(OnnxRuntimeBackend):
    name = "ort"


@pytest.fixture
def cpu():
    return Target("cpu", "ort", "CPUExecutionProvider", device="CPU")


@pytest.fixture
def backend():
    return Cpu()


@pytest.fixture(autouse=True)
def packages_of_npm(monkeypatch):
    """Installed once, and kept between runs of the tests."""
    monkeypatch.setenv("OPTIM_NPM_DIR", str(NPM))
