"""``make test-avx2`` says so where a machine cannot run it, or need not, and goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from processors import Command

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "as_avx2.py"


def where_possible(*command: str, path: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, SCRIPT, "--where-possible", *command]
    return subprocess.run(words, env={"PATH": str(path)}, capture_output=True, text=True, check=False)


def test_without_its_tools_it_says_what_is_missing_and_ends_well(tmp_path: Path) -> None:
    done = where_possible(sys.executable, "-c", "print('ran')", path=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("not run, it takes Linux on x86-64 with gcc and binutils")
    assert done.stdout.count("\n") == 1


def test_asked_for_by_name_it_fails_without_them(tmp_path: Path) -> None:
    words = [sys.executable, SCRIPT, sys.executable, "-c", "print('ran')"]
    done = subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""


@pytest.mark.slow
def test_a_processor_that_has_nothing_newer_needs_it_not(as_avx2: Command) -> None:
    done = as_avx2(sys.executable, str(SCRIPT), "--where-possible", sys.executable, "-c", "print('ran')")
    assert done.stdout.startswith("not run, this processor has nothing newer")


@pytest.mark.slow
def test_the_status_of_the_command_is_that_of_the_script(as_avx2: Command) -> None:
    with pytest.raises(AssertionError, match="went wrong"):
        as_avx2(sys.executable, "-c", "raise SystemExit('went wrong')")
