"""``optim plugins install`` of a wheel, in an environment of its own that holds optim."""

from __future__ import annotations

import subprocess
import sys

import pytest
from wheels import make_wheel

from optim._engine.cli.main import main
from optim_plugins.diagnose.installation.packages import install_package, is_package


@pytest.mark.parametrize(("what", "package"), [("inc", False), ("./inc", True), ("inc-1.0-py3-none-any.whl", True)])
def test_a_name_is_told_from_a_folder_and_a_wheel(what, package):
    assert is_package(what) is package


def test_a_wheel_that_is_not_there_and_a_folder_without_a_package_are_said(tmp_path, capsys):
    assert main(["plugins", "install", str(tmp_path / "none-1.0-py3-none-any.whl")]) == 2
    assert main(["plugins", "install", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("error[no-such-package]") == 2


@pytest.mark.slow
def test_a_package_that_would_move_one_of_ours_is_refused_with_pips_reason(tmp_path):
    info = {"METADATA": "Metadata-Version: 2.1\nName: greedy\nVersion: 1.0\nRequires-Dist: numpy<2\n"}
    wheel = make_wheel(tmp_path, "greedy", extra=info)
    with pytest.raises(Exception, match="numpy") as raised:
        install_package(str(wheel), alone=False)
    assert raised.value.reference == "plugin-install-failed"


@pytest.mark.slow
def test_setuptools_can_be_imported_after_an_install_in_the_same_process(tmp_path):
    """Its hook gives up distutils once anybody asks the import system for pip; torch.compile imports it, for one."""
    info = {"METADATA": "Metadata-Version: 2.1\nName: greedy\nVersion: 1.0\nRequires-Dist: numpy<2\n"}
    wheel = make_wheel(tmp_path, "greedy", extra=info)
    program = (
        f"from optim._engine.cli.main import main; main(['plugins', 'install', {str(wheel)!r}]); import setuptools"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_plugin_of_optims_own_environment_has_none_to_make_or_remove(capsys):
    assert main(["plugins", "install", "ort"]) == 2
    assert main(["plugins", "remove", "no-such"]) == 2
    said = capsys.readouterr().err
    assert "error[not-isolated]" in said
    assert "error[unknown-environment]" in said
