from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from optim.jobs.owner import FOLDER_VARIABLE, ending_workers
from optim_inc.environment import ISOLATION
from optim_plugins.diagnose.installation.making import install_environment

DATA = Path(__file__).parents[2] / ".cache" / "isolated"


@pytest.fixture(scope="module", autouse=True)
def neural_compressor():
    """The real one, in an environment made once and kept in ``.cache``; one worker for the tests of a file alone:
    with that environment its passes take part in every search.
    """
    with pytest.MonkeyPatch.context() as patch, ending_workers():
        patch.setenv("OPTIM_DATA_DIR", str(DATA))
        patch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)  # uv is there, faster than pip
        patch.delenv(FOLDER_VARIABLE, raising=False)
        install_environment(ISOLATION)
        yield
        assert os.environ["OPTIM_DATA_DIR"] == str(DATA)
