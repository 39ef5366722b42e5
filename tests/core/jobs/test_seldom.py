"""What is seldom needed is loaded when it is, and works then."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
from optim.jobs.seldom import put_off_what_is_seldom_needed
put_off_what_is_seldom_needed()
put_off_what_is_seldom_needed()
import gc, onnx_ir
loaded = lambda: "sympy.core" in sys.modules
print(loaded())
print(onnx_ir.SymbolicDim("past") + 1, loaded())
import sympy
print(sympy.Symbol("x") * 2, sum("Finder" in type(finder).__name__ for finder in sys.meta_path))
"""


@pytest.mark.slow
def test_arithmetic_on_dimensions_is_loaded_when_it_is_first_used():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[:2] == ["False", "past + 1 True"], done.stderr
    assert done.stdout.splitlines()[2].startswith("2*x ")


@pytest.mark.slow
def test_a_program_that_imports_optim_imports_as_it_always_did():
    program = "import optim, optim.onnx.files, onnx_ir, sys; print('sympy.core' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
