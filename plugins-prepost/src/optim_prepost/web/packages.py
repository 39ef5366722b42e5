"""Packages of npm, installed once into a folder of their own when they are first needed."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from optim.errors import ExitStatus, OptimError, disk_error
from optim_prepost import PACKAGE

ONNXRUNTIME_WEB = ("onnxruntime-web", "1.30.0")
"""The one version that models are run with, that is copied beside the page, and that the operator tables are of."""

PUPPETEER = ("puppeteer-core", "25.16.0")
"""Drives a Chromium that is on the machine; brings none."""

_FOLDER = "OPTIM_NPM_DIR"
"""Environment variable: folder of npm packages for target ``web``. By default optim installs them into its cache."""

_TIMEOUT_S = 600.0
_MOST_LINES, _LONGEST = 4, 200
_SOON = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000")
"""Without a network npm would try for minutes before it says so."""


def _packages_folder() -> Path:
    """Returns the folder of the packages."""
    if chosen := os.environ.get(_FOLDER):
        return Path(chosen).expanduser().absolute()
    from optim.folders import cache_folder

    return cache_folder() / "npm"


def installed(package: tuple[str, str]) -> Path | None:
    """The folder of a package that is there already."""
    name, version = package
    found = _packages_folder() / f"{name}@{version}" / "node_modules" / name
    return found if (found / "package.json").is_file() else None


def require(package: tuple[str, str]) -> Path:
    """The folder of a package; it is installed by npm if it is not there.

    Raises:
        OptimError[npm-missing]: there is no npm on this machine.
        OptimError[npm-failed]: npm could not install it.
        OptimError[not-writable]: where it would be kept.
    """
    if found := installed(package):
        return found
    try:
        _put_in_place(package)
    except OSError as error:
        raise disk_error(error, f"the package {package[0]} of npm could not be kept") from error
    found = installed(package)
    assert found is not None
    return found


def _put_in_place(package: tuple[str, str]) -> None:
    from filelock import FileLock

    name, version = package
    root = _packages_folder()
    root.mkdir(parents=True, exist_ok=True)
    with FileLock(root / f".{name}.lock"):
        if installed(package):
            return
        with tempfile.TemporaryDirectory(dir=root, prefix=".new-") as scratch:
            _install(f"{name}@{version}", Path(scratch))
            final = root / f"{name}@{version}"
            shutil.rmtree(final, ignore_errors=True)
            Path(scratch).rename(final)
            Path(scratch).mkdir()  # for the context manager to remove


def node() -> str:
    """The path of Node.

    Raises:
        OptimError[node-missing]: there is none.
    """
    found = shutil.which("node")
    if found is None:
        raise OptimError(
            "node-missing",
            "onnxruntime-web runs under Node, which this machine does not have",
            "there is no program 'node' on the PATH",
            "install Node 20 or later: https://nodejs.org",
            PACKAGE,
            ExitStatus.TARGET_UNAVAILABLE,
        )
    return found


def unavailable() -> str | None:
    """Why models cannot be run in onnxruntime-web here; looks for programs and starts none."""
    if shutil.which("node") is None:
        return "there is no Node on this machine: install Node 20 or later"
    if installed(ONNXRUNTIME_WEB) is None and shutil.which("npm") is None:
        return "there is no npm on this machine, which brings onnxruntime-web"
    return None


def _install(what: str, folder: Path) -> None:
    import subprocess

    npm = shutil.which("npm")
    if npm is None:
        raise OptimError(
            "npm-missing",
            f"{what} is installed by npm, which this machine does not have",
            "there is no program 'npm' on the PATH",
            "install Node 20 or later, which brings npm",
            PACKAGE,
            ExitStatus.TARGET_UNAVAILABLE,
        )
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev", *_SOON]
    command = [npm, "install", "--prefix", str(folder), *quiet, what]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
        problem = "" if done.returncode == 0 else _reason(done.stderr) or f"exit status {done.returncode}"
    except subprocess.TimeoutExpired:
        problem = f"it did not finish within {_TIMEOUT_S:.0f} s"
    if problem:
        raise OptimError(
            "npm-failed",
            f"npm could not install {what}",
            problem,
            "look at npm's own settings (npm config list), or set OPTIM_NPM_DIR to a folder that has the package",
            PACKAGE,
            ExitStatus.TARGET_UNAVAILABLE,
        )


def _reason(said: str) -> str:
    """The lines of npm that say why: the first few that are not its own stack trace."""
    lines = [line.removeprefix("npm error").removeprefix("npm ERR!").strip() for line in said.splitlines()]
    kept = [line for line in lines if line and not line.startswith(("at ", "A complete log", "{", "}", "npm warn"))]
    return "\n".join(line[:_LONGEST] for line in kept[:_MOST_LINES])
