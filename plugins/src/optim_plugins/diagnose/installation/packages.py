"""Installing the package of a plugin beside optim, which stays as it is: whatever would move another package fails."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from optim.errors import OptimError
from optim_plugins.diagnose.installation.making import reason

PREFIX = "optim-plugin-"


def is_package(what: str) -> bool:
    """Returns whether it is a folder or a wheel rather than a name."""
    return what.endswith(".whl") or "/" in what or "\\" in what or Path(what).is_dir()


def install_package(what: str, *, alone: bool) -> str:
    """Install a plugin's package with pip, every other package held at its version.

    Args:
        what: a folder with a ``pyproject.toml``, a wheel, or a name that pip knows.
        alone: without what it depends on.

    Returns:
        Name of the distribution.

    Raises:
        OptimError[no-such-package]: there is no such folder or wheel.
        OptimError[plugin-install-failed]: pip could not; with its reason.
    """
    name = _distribution(what)
    with tempfile.TemporaryDirectory() as folder:
        held, report = Path(folder) / "held.txt", Path(folder) / "report.json"
        held.write_text("".join(f"{line}\n" for line in _installed(besides=name)))
        quietly = ("--disable-pip-version-check", "--no-input", "--retries", "2")
        files = ("--constraint", str(held), "--report", str(report))
        command = [*_pip(), "install", *quietly, *files, *(["--no-deps"] if alone else []), what]
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise OptimError.usage(
                "plugin-install-failed",
                f"{what} could not be installed beside optim",
                reason(f"{done.stdout}\n{done.stderr}"),
                "name a folder, a wheel or a package that pip finds; "
                "what cannot live beside optim must be isolated by its plugin: docs/hooks.md",
            )
        for one in json.loads(report.read_text(encoding="utf-8"))["install"]:
            if one["requested"]:
                name = str(one["metadata"]["name"])
    importlib.invalidate_caches()
    return canonicalize_name(name)


def uninstall_package(name: str) -> None:
    """Take a package out again."""
    subprocess.run([*_pip(), "uninstall", "--quiet", "--yes", name], capture_output=True, check=False)
    importlib.invalidate_caches()


def _distribution(what: str) -> str:
    """The name of the distribution, as far as it can be told before it is installed."""
    if not is_package(what):
        return what
    path = Path(what)
    try:
        if what.endswith(".whl"):
            if not path.is_file():
                raise FileNotFoundError(f"there is no file {what}")
            return str(parse_wheel_filename(path.name)[0])
        project = tomllib.loads((path / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
        return str(project.get("name", path.name))
    except (OSError, InvalidWheelFilename, tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptimError.usage(
            "no-such-package",
            f"{what} is not a package of a plugin",
            str(error),
            "optim plugins install NAME, or the path of a wheel or of a folder with a pyproject.toml",
        ) from error


def _installed(*, besides: str) -> list[str]:
    found = {
        f"{canonicalize_name(one.name)}=={one.version}"
        for one in importlib.metadata.distributions()
        if one.name and canonicalize_name(one.name) != canonicalize_name(besides) and not _is_local(one)
    }
    return sorted(found)


def _is_local(one: importlib.metadata.Distribution) -> bool:
    """Installed from a folder: no index has that version, and pip would look for it there."""
    return bool(one.read_text("direct_url.json"))


def _pip() -> list[str]:
    """Pip of this environment; an environment that uv made has none."""
    # not importlib.util.find_spec: being asked for pip, setuptools' hook keeps distutils from whatever comes later
    if importlib.machinery.PathFinder.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    pip = shutil.which("pip")
    if pip is None:
        raise OptimError.usage(
            "plugin-install-failed",
            "there is no pip to install a plugin with",
            f"{sys.executable} has none",
            f"{sys.executable} -m ensurepip",
        )
    return [pip, "--python", sys.executable]
