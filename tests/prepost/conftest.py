from __future__ import annotations

from pathlib import Path

import pytest

from optim import SessionConfig, Target
from optim.onnx import OnnxRuntimeBackend, open_session, operator_libraries
from optim_prepost.append import Append
from optim_testing import Trial

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


@pytest.fixture
def compose(tmp_path, cpu, backend):
    """Compose a model, prove it, and open it: the result, its drift, and a function that runs it."""

    def make(path, prove=True, **options):
        trial = Trial.of(path, tmp_path / "trial", cpu, backend)
        result = trial.apply_watched(Append(), trial.options(Append, options))
        session = open_session(result.model.path, SessionConfig(), libraries=operator_libraries(result.model.opset))
        names = [output.name for output in session.get_outputs()]

        def run(*arrays):
            feeds = dict(zip([value.name for value in session.get_inputs()], arrays, strict=True))
            return dict(zip(names, session.run(None, feeds), strict=True))

        return (result, trial.drift(result), run) if prove else (result, run)

    return make
