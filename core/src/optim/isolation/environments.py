"""What a plugin says about its own environment, and the environments on disk: whole, or not there.

Layout below the user's data folder (``OPTIM_DATA_DIR``, else the platform's)::

    environments/inc/            a virtual environment, put in place by one rename when it was whole
    environments/inc/optim.json  what it was made from
    environments/.inc.making/    one that is being made by plugin ``diagnose``
    environments/.inc.wheels/    what was downloaded for it; an interrupted install goes on from there
    environments/.inc.lock       held by who makes or removes it
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from optim.folders import data_folder

MARKER = "optim.json"


@dataclass(frozen=True, slots=True)
class Isolation:
    """The environment of a plugin, which the plugin's module has as ``OPTIM_ISOLATED``.

    Attributes:
        plugin: name of the plugin.
        requirements: all packages of the environment, each pinned as pip takes it.
        jobs: a Python file that runs in the environment, without optim. Each public function is a job, ``job(request,
            host)``, with JSON values in and out, and models and arrays as paths of files.
        python: Python versions with wheels for the pins, as ``requires-python`` has them.
    """

    plugin: str
    requirements: tuple[str, ...]
    jobs: Path
    python: str = ">=3.11"


def read_requirements(path: Path) -> tuple[str, ...]:
    """Returns the lines of a requirements file, without comments."""
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    return tuple(line for line in lines if line)


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment that is whole.

    Attributes:
        plugin: whose it is.
        folder: of it.
        python: version of its interpreter.
        requirements: it was made from, as ``name==version``.
        size_bytes: on disk.
    """

    plugin: str
    folder: Path
    python: str
    requirements: tuple[str, ...]
    size_bytes: int

    @property
    def executable(self) -> Path:
        """Its Python."""
        return executable(self.folder)

    @property
    def key(self) -> str:
        """What tells it from another: sha256 over its Python and everything in it, hex."""
        return hashlib.sha256(json.dumps([self.python, self.requirements]).encode()).hexdigest()


def executable(folder: Path) -> Path:
    """The Python of the virtual environment in a folder."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def environments_folder() -> Path:
    """``OPTIM_DATA_DIR``, else the platform's data folder of this user; ``environments`` below it."""
    return data_folder() / "environments"


def installed_environment(plugin: str) -> Environment | None:
    """The environment of a plugin, whatever it was made from."""
    folder = environments_folder() / plugin
    try:
        made = json.loads((folder / MARKER).read_text())
        return Environment(plugin, folder, made["python"], tuple(made["requirements"]), made["size_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_environment(isolation: Isolation) -> Environment | None:
    """Finds the environment of a plugin, if it has the plugin's present requirements and can start."""
    found = installed_environment(isolation.plugin)
    if found is None or found.requirements != isolation.requirements or not found.executable.exists():
        return None
    return found


def installed_environments() -> list[Environment]:
    """Every environment, also of plugins that are no longer installed, by name."""
    folder = environments_folder()
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    found = (installed_environment(name) for name in names if not name.startswith("."))
    return [one for one in found if one is not None]
