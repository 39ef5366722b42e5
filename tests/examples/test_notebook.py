"""The notebook of ``examples/notebook``, cell by cell, as a user would run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "try-passes.ipynb"


def test_every_cell_runs_and_both_passes_are_compared() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code"), "figures of another machine"
    command = [sys.executable, "-c", "\n".join(code)]
    done = subprocess.run(command, cwd=NOTEBOOK.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(": drift ") == 2
    assert "ratio " in done.stdout
