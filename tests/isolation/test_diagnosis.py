"""What the doctor says about the environment of an isolated plugin."""

from __future__ import annotations

import json
import shutil
import sys
import types
from dataclasses import replace
from pathlib import Path

import pytest

from optim._engine.plugins.plugin import LoadedPlugin, PluginInfo, State
from optim._engine.plugins.registry import load_registry
from optim._engine.plugins.survey import survey_plugins
from optim.isolation.environments import MARKER, Isolation
from optim_plugins.diagnose.installation.environment import diagnose
from optim_plugins.diagnose.installation.examine import Severity, _environments

WANTED = Isolation("tiny", ("first==1.0", "the-second==1.0"), Path("unused.py"))
AGAIN = "optim plugins remove tiny && optim plugins install tiny"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An environment as an install leaves it, of links and empty folders."""
    monkeypatch.setenv("OPTIM_DATA_DIR", str(tmp_path))
    made = tmp_path / "environments" / "tiny"
    (made / "bin").mkdir(parents=True)
    (made / "bin" / "python").symlink_to(sys.executable)
    for name in ("first-1.0", "the_second-1.0"):
        (made / "lib" / "python3.11" / "site-packages" / f"{name}.dist-info").mkdir(parents=True)
    marker = {"python": "3.11.0", "requirements": list(WANTED.requirements), "size_bytes": 1}
    (made / MARKER).write_text(json.dumps(marker))
    return made


def doctor(isolation):
    module = types.SimpleNamespace(OPTIM_ISOLATED=isolation)
    plugin = LoadedPlugin(PluginInfo("tiny", "optim-tiny", "1.0", "tiny"), State.OK, implementation=module)
    return list(_environments([plugin]))


def test_a_whole_environment_has_nothing_to_mend(folder):
    assert diagnose(WANTED) is None
    assert doctor(WANTED) == []


def test_one_that_was_never_made_is_a_note_with_the_command(folder):
    shutil.rmtree(folder)
    (found,) = doctor(WANTED)
    assert found.severity is Severity.NOTE
    assert "has not been made: its passes do not apply" in found.what
    assert found.fix == "optim plugins install tiny"


def test_the_list_of_plugins_says_ok_only_where_the_environment_is_there(folder):
    registry = load_registry(only=["inc"])
    (plugin,) = registry.plugins
    (shown,) = survey_plugins(registry)
    assert (shown.plugin.state, shown.runs) == (State.NOT_INSTALLED, "isolated")
    assert shown.plugin.reason.endswith("optim plugins install inc")
    marker = json.loads((folder / MARKER).read_text())
    folder = folder.rename(folder.with_name("inc"))
    (folder / MARKER).write_text(
        json.dumps(marker | {"requirements": list(plugin.implementation.OPTIM_ISOLATED.requirements)})
    )
    (shown,) = survey_plugins(registry)
    assert (shown.plugin.state, shown.plugin.reason) == (State.OK, "")


def test_for_another_python_than_the_pins_have_the_command_names_one(folder):
    shutil.rmtree(folder)
    assert "optim plugins install tiny --python " in doctor(replace(WANTED, python="<3.9"))[0].fix


def _without_marker(folder):
    (folder / MARKER).unlink()


def _without_python(folder):
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").symlink_to(folder / "gone")


def _with_a_python_that_fails(folder):
    (folder / "bin" / "python").unlink()
    (folder / "bin" / "python").write_text("#!/bin/sh\necho no home >&2; exit 3\n")
    (folder / "bin" / "python").chmod(0o755)


def _without_a_package(folder):
    (folder / "lib" / "python3.11" / "site-packages" / "the_second-1.0.dist-info").rmdir()


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (_without_marker, "is not whole"),
        (_without_python, "does not start: "),
        (_with_a_python_that_fails, "does not start: no home"),
        (_without_a_package, "lacks the-second==1.0, which it was made with"),
    ],
)
def test_a_broken_one_is_to_be_mended(folder, harm, says):
    harm(folder)
    (found,) = doctor(WANTED)
    assert found.severity is Severity.PROBLEM
    assert says in found.what
    assert found.fix == AGAIN


def test_one_of_an_older_plugin_is_to_be_made_anew(folder):
    (found,) = doctor(replace(WANTED, requirements=("first==2.0",)))
    assert found.severity is Severity.PROBLEM
    assert "made from other requirements" in found.what
    assert found.fix == "optim plugins install tiny"
