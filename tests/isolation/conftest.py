from __future__ import annotations

from pathlib import Path

import pytest

from optim.isolation.environments import Isolation
from optim.jobs import owner
from optim.jobs.owner import FOLDER_VARIABLE
from optim_plugins.diagnose.installation.making import install_environment

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def made() -> Isolation:
    """A plugin without libraries whose environment is made once and kept in ``.cache``."""
    isolation = Isolation("stdlib", (), Path(__file__).with_name("jobs_for_tests.py"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIM_DATA_DIR", str(ROOT / ".cache" / "isolated"))
        install_environment(isolation)
    return isolation


@pytest.fixture
def isolation(made, monkeypatch):
    monkeypatch.setenv("OPTIM_DATA_DIR", str(ROOT / ".cache" / "isolated"))
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(owner, "_owned", owner._Owned())  # whatever else this process keeps alive
    with owner.ending_workers():
        yield made
