"""A virtual environment with core, the conformance kits and what vendors publish, made once and kept in ``.cache``."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
_UV = shutil.which("uv", path=sysconfig.get_path("scripts"))
_VENDORS = ("acme", "broken", "faulty", "volt")
_INSTALLED = (
    "core/pyproject.toml",
    "testing/pyproject.toml",
    *(f"tests/thirdparty/{name}/pyproject.toml" for name in _VENDORS),
)


class Environment:
    """A virtual environment.

    Attributes:
        folder: of the environment.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bin = folder / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *command: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment."""
        clean = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "OPTIM_DISABLE_PLUGINS")}
        return subprocess.run(
            [str(self._bin / command[0]), *command[1:]],
            cwd=cwd,
            env={**clean, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=800,
        )

    def install(self, *arguments: str) -> None:
        """Install with pip; what builds a package is there already."""
        done = self.run("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)
        if done.returncode:
            raise RuntimeError(f"pip install {' '.join(arguments)} failed:\n{done.stderr}")

    def install_fast(self, *arguments: str) -> None:
        """Install with uv where that is and can: it takes a tenth of the time, and reads another configuration."""
        if _UV is not None:
            python = str(self._bin / "python")
            command = [_UV, "pip", "install", "--quiet", "--python", python, *arguments]
            if subprocess.run(command, check=False).returncode == 0:
                return
        self.install(*arguments)

    def optim_json(self, *arguments: str, **environment: str) -> dict[str, object]:
        """What a command says with ``--json``."""
        found: dict[str, object] = json.loads(self.run("optim", *arguments, "--json", **environment).stdout)
        return found


def fresh_environment() -> Environment:
    """Core with its extra ``cpu``, the conformance kits, and the packages of this folder; no other plugin."""
    key = hashlib.sha256(sys.version.encode() + str(ROOT).encode() + Path(__file__).read_bytes())
    for name in _INSTALLED:
        key.update((ROOT / name).read_bytes())
    folder = ROOT / ".cache" / "thirdparty" / key.hexdigest()[:16]
    folder.parent.mkdir(parents=True, exist_ok=True)
    environment = Environment(folder)
    with FileLock(folder.with_suffix(".lock")):
        if not (folder / "ready").exists():
            _create(folder)
            constraints = str(ROOT / "constraints-dev.txt")
            ours = ("--editable", f"{ROOT / 'core'}[cpu]", "--editable", str(ROOT / "testing"))
            environment.install_fast("--constraint", constraints, *ours, "hatchling", "editables")
            vendors = [word for name in _VENDORS for word in ("--editable", str(HERE / name))]
            environment.install_fast("--no-deps", "--no-build-isolation", *vendors)
            (folder / "ready").touch()
    return environment


def _create(folder: Path) -> None:
    """An empty environment with pip: by uv where that is and can, in a tenth of the time."""
    if _UV is not None:
        command = [_UV, "venv", "--quiet", "--clear", "--seed", "--python", sys.executable, str(folder)]
        if subprocess.run(command, check=False).returncode == 0:
            return
    venv.create(folder, with_pip=True, clear=True)
