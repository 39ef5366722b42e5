"""Environments are whole or not there; every way to fail says why, and an install goes on where it stopped."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from wheels import make_wheel

from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.versions import plugin_version_key
from optim.errors import OptimError
from optim.isolation.environments import Isolation, environments_folder, find_environment, installed_environments
from optim_plugins.diagnose.installation.making import install_environment, remove_environment

pytestmark = pytest.mark.slow


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder of wheels, and no other index."""
    monkeypatch.setenv("OPTIM_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", os.defpath)  # without uv, which may lie beside this Python
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    make_wheel(tmp_path / "index", "first")
    make_wheel(tmp_path / "index", "second")
    return tmp_path / "index"


WANTED = Isolation("tiny", ("first==1.0", "second==1.0"), Path("unused.py"))


def test_without_a_network_it_says_so_and_goes_on_when_it_is_back(index, monkeypatch):
    second = index / "second-1.0-py3-none-any.whl"
    held = second.rename(index.parent / second.name)
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(OptimError, match="Connection refused") as raised:
        install_environment(WANTED)
    assert raised.value.reference == "index-unreachable"
    assert "optim plugins install tiny" in raised.value.fix
    assert find_environment(WANTED) is None
    assert _left() == [".tiny.lock", ".tiny.wheels"]

    held.rename(second)
    (index / "first-1.0-py3-none-any.whl").unlink()  # it need not be there again
    said = []
    made = install_environment(WANTED, progress=lambda done, steps, what: said.append((done, steps, what)))
    assert said[0] == (1, 4, "1 of 2 packages are there already")
    assert said[-1] == (4, 4, "installed")
    assert _versions(made.executable) == "1.0 1.0"
    assert find_environment(WANTED) == made
    assert _left() == [".tiny.lock", "tiny"]


def test_what_pip_cannot_meet_comes_with_its_reason_and_the_old_environment_stays(index):
    old = Isolation("tiny", (), Path("unused.py"))
    install_environment(old)
    with pytest.raises(OptimError, match=r"No matching distribution found for first==9\.0") as raised:
        install_environment(replace(WANTED, requirements=("first==9.0",)))
    assert raised.value.reference == "isolated-install-failed"
    assert len(raised.value.cause.splitlines()) <= 3
    assert find_environment(old) is not None


def test_a_new_version_of_the_plugin_gets_a_new_environment_and_another_key(index):
    info = PluginInfo("tiny", "optim-plugin-tiny", "1.0", "tiny")
    without = plugin_version_key(info)
    install_environment(Isolation("tiny", (), Path("unused.py")))
    before = plugin_version_key(info)
    made = install_environment(WANTED)
    assert _versions(made.executable) == "1.0 1.0"
    assert len({without, before, plugin_version_key(info)}) == 3
    assert [one.plugin for one in installed_environments()] == ["tiny"]
    assert made.size_bytes > 1000
    assert remove_environment("tiny")
    assert _left() == [".tiny.lock"]
    assert not remove_environment("tiny")


def test_a_python_that_the_pins_do_not_fit_is_named_with_what_they_need(index):
    with pytest.raises(OptimError, match=r"its pins need <3\.9") as raised:
        install_environment(replace(WANTED, python="<3.9"))
    assert raised.value.reference == "isolated-python"
    assert "--python" in raised.value.fix
    with pytest.raises(OptimError, match="does not start"):
        install_environment(WANTED, python="/no/such/python")
    assert not environments_folder().exists()


def test_a_full_disk_is_said_and_nothing_half_made_stays(index):
    make_wheel(index, "first", extra={"LARGE": os.urandom(100_000).hex()})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OptimError, match="File too large") as raised:
            install_environment(WANTED)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert raised.value.reference == "disk-full"
    assert find_environment(WANTED) is None
    assert not any("making" in name for name in _left())


@pytest.mark.parametrize(
    "python",
    ["", pytest.param(os.path.realpath(sys.executable), id="another with its own pip", marks=pytest.mark.wide)],
)
def test_an_install_that_is_killed_leaves_nothing_that_counts(index, python):
    code = (
        "from pathlib import Path; from optim_plugins.diagnose.installation.making import install_environment\n"
        "from optim.isolation.environments import Isolation\n"
        "import os; say = lambda done, steps, what: os._exit(9) if what == 'installing' else None\n"
        "install_environment(Isolation('tiny', ('first==1.0', 'second==1.0'), Path('unused.py')), progress=say)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert find_environment(WANTED) is None
    assert installed_environments() == []
    made = install_environment(WANTED, python=python)
    assert _versions(made.executable) == "1.0 1.0"
    assert _left() == [".tiny.lock", "tiny"]


def _versions(python: Path) -> str:
    code = "import first, second; print(first.VERSION, second.VERSION)"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def _left() -> list[str]:
    return sorted(path.name for path in environments_folder().iterdir())
