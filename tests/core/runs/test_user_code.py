"""Code of the working folder runs where the user named it, and nowhere else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from optim_testing import models

USE = """
import sys
from optim.user_code import find_function
print(find_function(sys.argv[1])())
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A stranger's folder: a model, and modules that look like installed ones."""
    models.mlp(tmp_path)
    for name in ("numpy", "onnx", "onnxruntime", "pydantic", "json", "optim_plugins"):
        (tmp_path / f"{name}.py").write_text("open('planted', 'a').write(__name__)")
    (tmp_path / "mine.py").write_text("def f():\n    import beside, numpy\n    return beside.VALUE, numpy.__name__\n")
    (tmp_path / "beside.py").write_text("VALUE = 7")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "part.py").write_text("def f():\n    return 'part'\n")
    return tmp_path


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "verb", [["inspect", "mlp.onnx"], ["verify", "mlp.onnx", "mlp.onnx"]], ids=lambda verb: verb[0]
)
def test_modules_beside_a_model_are_not_run(folder, verb):
    done = python(folder, "-P", "-m", "optim", *verb)
    assert done.returncode == 0, done.stderr
    assert not (folder / "planted").exists()


def test_what_is_named_is_found_in_the_working_folder_and_what_it_imports_beside_it(folder):
    for name in ("json", "pydantic"):
        (folder / f"{name}.py").unlink()
    done = python(folder, "-P", "-c", USE, "mine:f")
    assert done.stdout == "(7, 'numpy')\n", done.stderr
    assert not (folder / "planted").exists()
    assert python(folder, "-P", "-c", USE, "pack.part:f").stdout == "part\n"


def test_what_is_not_in_the_working_folder_is_an_installed_module(folder):
    done = python(folder, "-P", "-c", USE, "platform:python_version")
    assert done.stdout.strip() == ".".join(map(str, sys.version_info[:3]))


def test_a_module_that_breaks_while_it_is_imported_is_not_half_there(folder):
    (folder / "broken.py").write_text("x = 1\nraise RuntimeError('on purpose')")
    program = "import sys; from optim.user_code import import_here\ntry:\n    import_here('broken')\n"
    program += "except RuntimeError:\n    print('broken' in sys.modules)"
    assert python(folder, "-P", "-c", program).stdout == "False\n"
