"""The environments on disk: made whole or not at all.

Layout below the user's data folder (``OPTIM_DATA_DIR``, else the platform's)::

    environments/inc/                a virtual environment
    environments/inc/optim.json      written last: what it was made from; without it the folder is half made

A virtual environment cannot be moved, so it is made where it stays, and the marker makes it count. An interrupted
install is continued: pip finds what is there already.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from packaging.specifiers import SpecifierSet

from optim.errors import ExitStatus, OptimError
from optim.isolation.isolation import Isolation

_MARKER = "optim.json"


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that is whole.

    Attributes:
        folder: of it.
        python: version of its interpreter.
        requirements: it was made from.
        size_bytes: on disk.
    """

    folder: Path
    python: str
    requirements: tuple[str, ...]
    size_bytes: int

    @property
    def executable(self) -> Path:
        """Its Python."""
        return _executable(self.folder)


def environments_folder() -> Path:
    """``OPTIM_DATA_DIR``, else the platform's data folder of this user; ``environments`` below it."""
    if chosen := os.environ.get("OPTIM_DATA_DIR"):
        return Path(chosen).expanduser().absolute() / "environments"
    import platformdirs

    return platformdirs.user_data_path("optim") / "environments"


def find_environment(isolation: Isolation) -> Environment | None:
    """The environment of a plugin where it is whole and made from the requirements that the plugin has now."""
    folder = environments_folder() / isolation.plugin
    try:
        made = json.loads((folder / _MARKER).read_text())
        found = Environment(folder, made["python"], tuple(made["requirements"]), made["size_bytes"])
    except (OSError, ValueError, KeyError):
        return None
    return found if found.requirements == isolation.requirements and found.executable.exists() else None


def install_environment(isolation: Isolation, python: str = "") -> Environment:
    """Make the environment, or finish one that was interrupted.

    Args:
        isolation: of the plugin.
        python: interpreter to make it with; the running one by default.

    Raises:
        OptimError[isolated-python]: the pins have nothing for this Python.
        OptimError[isolated-install-failed]: pip could not; with its reason.
    """
    if found := find_environment(isolation):
        return found
    python = python or sys.executable
    version = _checked_python(isolation, python)
    folder = environments_folder() / isolation.plugin
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if found := find_environment(isolation):
            return found
        (folder / _MARKER).unlink(missing_ok=True)
        _call([python, "-m", "venv", str(folder)], isolation)
        _call([
            str(_executable(folder)), "-m", "pip", "install", "--disable-pip-version-check", "--no-input",
            "--progress-bar", "off", *isolation.requirements,
        ], isolation)  # fmt: skip
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        marker = {"python": version, "requirements": list(isolation.requirements), "size_bytes": size}
        temporary = folder / f"{_MARKER}.tmp"
        temporary.write_text(json.dumps(marker))
        os.replace(temporary, folder / _MARKER)
        return Environment(folder, version, isolation.requirements, size)


def remove_environment(plugin: str) -> bool:
    """Delete the environment of a plugin, whole or half made; False where there is none."""
    folder = environments_folder() / plugin
    if not folder.is_dir():
        return False
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        (folder / _MARKER).unlink(missing_ok=True)
        shutil.rmtree(folder)
    return True


def _executable(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _checked_python(isolation: Isolation, python: str) -> str:
    try:
        version = subprocess.run(
            [python, "-c", "import platform; print(platform.python_version())"],
            capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
    except (OSError, subprocess.CalledProcessError) as error:
        raise _wrong_python(isolation, f"{python} does not start: {error}") from error
    if version not in SpecifierSet(isolation.python):
        raise _wrong_python(isolation, f"{python} is Python {version}; it needs {isolation.python}")
    return version


def _wrong_python(isolation: Isolation, cause: str) -> OptimError:
    return OptimError(
        "isolated-python", f"the environment of plugin {isolation.plugin} cannot be made with this Python", cause,
        f"optim plugins install {isolation.plugin} --python PATH_OF_A_FITTING_PYTHON", status=ExitStatus.USAGE,
    )  # fmt: skip


def _call(command: list[str], isolation: Isolation) -> None:
    clean = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        reasons = [line for line in said if line.startswith("ERROR:")] or said[-3:]
        raise OptimError(
            "isolated-install-failed", f"the environment of plugin {isolation.plugin} could not be made",
            "\n".join(line[:300] for line in reasons[:3]),
            f"optim plugins install {isolation.plugin}   (it continues where it stopped)", status=ExitStatus.USAGE,
        )  # fmt: skip
