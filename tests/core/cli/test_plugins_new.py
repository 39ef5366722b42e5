"""Commands of ``optim plugins`` from other distributions: without its distribution, each says how to install it."""

from __future__ import annotations

import importlib.metadata
import json
import sys

import pytest

from optim._engine.cli.main import main
from optim.errors import ExitStatus


@pytest.fixture
def without_testing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what other distributions than optim-testing have is found."""
    all_of = importlib.metadata.entry_points

    def others(**wanted: str) -> importlib.metadata.EntryPoints:
        return importlib.metadata.EntryPoints(
            entry for entry in all_of(**wanted) if entry.dist is None or entry.dist.name != "optim-testing"
        )

    monkeypatch.setattr(importlib.metadata, "entry_points", others)


@pytest.mark.usefixtures("without_testing")
@pytest.mark.parametrize("words", [["my-vendor"], ["my-vendor", "--stage", "fuse", "--json"], []])
def test_without_optim_testing_it_says_how_to_install_it(
    words: list[str], tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plugins", "new", *words]) == ExitStatus.USAGE
    said = "".join(capsys.readouterr())
    assert "testing-missing" in said
    assert "pip install ./testing" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["doctor"], ["install", "inc"], ["remove", "inc"]], ids=lambda words: words[0])
def test_without_optim_plugins_its_commands_say_how_to_install_it(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **wanted: importlib.metadata.EntryPoints())
    assert main(["plugins", *words, "--json"]) == ExitStatus.USAGE
    said = "".join(capsys.readouterr())
    assert "plugins-missing" in said
    assert "pip install ./plugins" in said
    assert main(["plugins", "--help"]) == 0
    assert "needs optim-plugins" in capsys.readouterr().out


@pytest.mark.usefixtures("without_testing")
def test_without_optim_testing_it_is_listed_with_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plugins", "--help"]) == 0
    assert "needs optim-testing" in capsys.readouterr().out
    assert main(["plugins", "new", "--help"]) == 0
    assert "pip install ./testing" in capsys.readouterr().out


def test_with_optim_testing_it_writes_a_package(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plugins", "new", "--help"]) == 0
    assert "--stage" in capsys.readouterr().out
    assert main(["plugins", "new", "my-vendor"]) == 0
    text = (tmp_path / "optim-plugin-my-vendor" / "pyproject.toml").read_text()
    assert 'test = ["optim-core[cpu]", "optim-testing"]' in text


def test_a_command_of_another_version_is_listed_and_says_what_is_wrong(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "optim_plugins.diagnose.installation.doctor", None)  # as if it had moved
    assert main(["plugins", "--help"]) == 0
    assert "cannot be loaded" in capsys.readouterr().out
    assert main(["plugins", "doctor", "--json"]) == ExitStatus.USAGE
    said = json.loads(capsys.readouterr().out)["error"]
    assert (said["reference"], said["package"]) == ("plugin-failed", "optim-plugins")
