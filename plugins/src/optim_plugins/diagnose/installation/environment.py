"""What is wrong with the environment of an isolated plugin, found by looking at it; only its Python is started."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from optim.engine.installation import MARKER, Environment, environments_folder, installed_environment
from optim.errors import some_of
from optim.isolation import Isolation
from optim_plugins.diagnose.installation.making import fitting_python, pinned

_START_S = 30.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One environment that cannot be used.

    Attributes:
        broken: it is there and does not work; otherwise it was never made.
        what: one line.
        fix: a command.
    """

    broken: bool
    what: str
    fix: str


def diagnose(isolation: Isolation) -> Diagnosis | None:
    """Why the passes of a plugin cannot run in its environment; None where they can."""
    install = f"optim plugins install {isolation.plugin}"
    folder = environments_folder() / isolation.plugin
    if not folder.is_dir():
        unmade = "its environment has not been made: its passes do not apply"
        return Diagnosis(False, unmade, install + _python(isolation))
    again = f"optim plugins remove {isolation.plugin} && {install}" + _python(isolation)
    found = installed_environment(isolation.plugin)
    if found is None:
        return Diagnosis(True, f"its environment is not whole: {folder / MARKER} is missing or damaged", again)
    if found.requirements != isolation.requirements:
        return Diagnosis(True, "its environment was made from other requirements than it has now", install)
    if why := _does_not_start(found):
        return Diagnosis(True, f"the Python of its environment does not start: {why}", again)
    if lost := _lost(found):
        return Diagnosis(True, f"its environment lacks {some_of(lost, 1)}, which it was made with", again)
    return None


def _python(isolation: Isolation) -> str:
    """What the command needs where the running Python is not one that the pins have wheels for."""
    if ".".join(map(str, sys.version_info[:3])) in SpecifierSet(isolation.python):
        return ""
    return f" --python {fitting_python(isolation.python) or 'PATH_OF_A_FITTING_PYTHON'}"


def _does_not_start(environment: Environment) -> str:
    try:
        done = subprocess.run(
            [str(environment.executable), "-c", ""], capture_output=True, text=True, check=False, timeout=_START_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.strip().splitlines()
    return "" if done.returncode == 0 else (said[-1] if said else f"exit status {done.returncode}")


def _lost(environment: Environment) -> list[str]:
    """Requirements that are no longer installed in it, by what pip left of each."""
    there = {
        (canonicalize_name(name), version)
        for path in environment.folder.glob("[Ll]ib*/**/site-packages/*.dist-info")
        for name, _, version in [path.name.removesuffix(".dist-info").rpartition("-")]
    }
    return [one for one in environment.requirements if pinned(one) not in there]
