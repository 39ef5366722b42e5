"""The environment of one version of onnxruntime: that version and numpy, and nothing of optim."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version as installed_version
from pathlib import Path

from optim import OptimError
from optim.isolation import Isolation
from optim_plugins.diagnose.installation.making import install_environment

DISTRIBUTION = "onnxruntime"
_VERSION = re.compile(r"\d+(\.\d+)+[\w.]*")
_LAST_NUMPY_1 = "1.26.4"
_FIRST_FOR_NUMPY_2 = (1, 19)
"""Earlier versions of onnxruntime are compiled for numpy 1."""


def environment_of(version: str) -> Isolation:
    """What is installed for a version, and the jobs that run there."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    numpy = installed_version("numpy") if numbers >= _FIRST_FOR_NUMPY_2 else _LAST_NUMPY_1
    pins = (f"{DISTRIBUTION}=={version}", f"numpy=={numpy}")
    return Isolation(f"{DISTRIBUTION}-{version}", pins, Path(__file__).with_name("jobs.py"))


def is_version(text: str) -> bool:
    """Whether a text can be a version."""
    return _VERSION.fullmatch(text) is not None


def make_environment(version: str, say: Callable[[str], None]) -> None:
    """Make the environment of a version, unless it is there.

    Raises:
        OptimError[unknown-runtime-version]: there is no such version for this Python and machine.
        OptimError: index-unreachable, disk-full, not-writable.
    """
    isolation = environment_of(version)
    try:
        install_environment(isolation, progress=lambda done, steps, what: say(f"{isolation.plugin}: {what}"))
    except OptimError as error:
        what = f"there is no environment with {DISTRIBUTION} {version}"
        again = f"optim runtimes MODEL {DISTRIBUTION}=={version}"
        if "No matching distribution" in error.cause:
            raise OptimError.usage(
                "unknown-runtime-version",
                what,
                error.cause,
                "pip index versions onnxruntime   # the versions for this Python and machine; then name one",
            ) from error
        fix = error.fix.replace(f"optim plugins install {isolation.plugin}", again)
        raise replace(error, what=what, fix=fix) from error
