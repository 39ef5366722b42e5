"""Making the environment of an isolated plugin, and removing it.

Downloads come first, into a folder that survives; then all of it is made offline, and renamed into place.
What is made is not reachable under its name before it is whole, and one that it replaces works until then. It is
moved once, which its scripts do not survive; only its Python is ever started.
"""

from __future__ import annotations

import importlib.machinery
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from filelock import FileLock
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name, parse_wheel_filename

from optim.engine.installation import MARKER, Environment, environments_folder, executable, installed_environment
from optim.errors import OptimError, disk_error
from optim.isolation import Isolation, find_environment

Progress = Callable[[int, int, str], None]
_AT_ONCE = 4
_CALL_TIMEOUT_S = 1800.0
_QUIETLY = ("--disable-pip-version-check", "--no-input")


def install_environment(isolation: Isolation, python: str = "", progress: Progress | None = None) -> Environment:
    """Makes the environment of a plugin, or completes an interrupted one. Leaves a complete one as it is.

    Args:
        isolation: environment of the plugin.
        python: interpreter for the environment; by default the running one.
        progress: reports progress, called with steps done, all steps, and a few words.

    Raises:
        OptimError[isolated-python]: the pins have nothing for this Python.
        OptimError[isolated-install-failed]: pip failed. The error has its reason.
        OptimError[index-unreachable]: there is no connection to the package index.
        OptimError[disk-full]: the disk of the environments is full.
        OptimError[not-writable]: the folder of the environments cannot be written.
    """
    if found := find_environment(isolation):
        return found
    version = _checked_python(isolation, python or sys.executable)
    try:
        environments_folder().mkdir(parents=True, exist_ok=True)
        with FileLock(_beside(isolation.plugin, "lock")):
            return find_environment(isolation) or _make(isolation, python or sys.executable, version, progress)
    except OSError as error:
        raise disk_error(error, f"the environment of plugin {isolation.plugin} could not be made") from error


def remove_environment(plugin: str) -> bool:
    """Delete the environment of a plugin, whole or half made, and its downloads; False where there is nothing."""
    folders = [environments_folder() / plugin, *(_beside(plugin, part) for part in ("making", "wheels", "old"))]
    if not any(folder.is_dir() for folder in folders):
        return False
    with FileLock(_beside(plugin, "lock")):
        for folder in folders:
            (folder / MARKER).unlink(missing_ok=True)  # it counts as gone before it is
            shutil.rmtree(folder, ignore_errors=True)
    return True


def _make(isolation: Isolation, python: str, version: str, progress: Progress | None) -> Environment:
    making, final = _beside(isolation.plugin, "making"), environments_folder() / isolation.plugin
    say = progress or (lambda done, steps, what: None)
    shutil.rmtree(making, ignore_errors=True)
    try:
        if not _made_by_uv(isolation, python, making, say):
            _made_by_pip(isolation, python, making, say)
        size = sum(path.stat().st_size for path in making.rglob("*") if path.is_file() and not path.is_symlink())
        marker = {"python": version, "requirements": list(isolation.requirements), "size_bytes": size}
        (making / MARKER).write_text(json.dumps(marker))
        _put_in_place(making, final, isolation.plugin)
    except PipFailed as failed:
        raise install_failed(isolation, failed.said) from failed
    finally:
        shutil.rmtree(making, ignore_errors=True)
    shutil.rmtree(_beside(isolation.plugin, "wheels"), ignore_errors=True)
    made = installed_environment(isolation.plugin)
    assert made is not None, "it has just been put in place"
    return made


def _beside(plugin: str, part: str) -> Path:
    """``.NAME.PART`` beside the environment of a plugin."""
    return environments_folder() / f".{plugin}.{part}"


def _put_in_place(making: Path, final: Path, plugin: str) -> None:
    old = _beside(plugin, "old")
    shutil.rmtree(old, ignore_errors=True)
    if final.exists():
        os.replace(final, old)
    os.replace(making, final)
    shutil.rmtree(old, ignore_errors=True)


def _made_by_uv(isolation: Isolation, python: str, making: Path, say: Progress) -> bool:
    """False where uv is not there, or failed: it reads another configuration than pip."""
    uv = shutil.which("uv")
    if uv is None:
        return False
    say(0, 2, "uv makes a virtual environment")
    try:
        _call([uv, "venv", "--quiet", "--no-project", "--python", python, str(making)])
        say(1, 2, f"uv installs packages: {len(isolation.requirements)}")
        if isolation.requirements:
            into = ("--python", str(executable(making)))
            _call([uv, "pip", "install", "--quiet", "--no-deps", *into, *isolation.requirements])
    except PipFailed:
        say(2, 2, "uv could not; pip does it")
        shutil.rmtree(making, ignore_errors=True)
        return False
    say(2, 2, "installed")
    return True


def _made_by_pip(isolation: Isolation, python: str, making: Path, say: Progress) -> None:
    wheels = _beside(isolation.plugin, "wheels")
    wheels.mkdir(exist_ok=True)
    missing = _missing(isolation.requirements, wheels)
    steps, done = len(isolation.requirements) + 2, len(isolation.requirements) - len(missing)
    say(done, steps, f"{done} of {len(isolation.requirements)} packages are there already" if done else "starting")
    _call([python, "-m", "venv", "--clear", "--without-pip", str(making)])
    pip = [*_pip(python, str(executable(making))), *_QUIETLY]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        downloads = {pool.submit(_download, pip, one, wheels): one for one in missing}
        try:
            for download in as_completed(downloads):
                download.result()
                done += 1
                say(done, steps, f"downloaded {downloads[download]}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    say(steps - 2, steps, "installing")
    if isolation.requirements:
        from_wheels = ("--no-index", "--no-deps", "--find-links", str(wheels))
        _call([*pip, "install", "--quiet", *from_wheels, *isolation.requirements])
    say(steps, steps, "installed")


def _pip(python: str, inside: str) -> list[str]:
    """Pip for a new environment of this Python: ours, where the Python is ours too, or one that comes with it."""
    if python == sys.executable and importlib.machinery.PathFinder.find_spec("pip") is not None:
        return [python, "-m", "pip", "--python", inside]
    _call([inside, "-m", "ensurepip", "--default-pip"])  # venv would keep to itself why it fails
    return [inside, "-m", "pip"]


def _download(pip: Sequence[str], requirement: str, wheels: Path) -> None:
    """One wheel, which is in the folder whole or not at all."""
    arriving = wheels / f".{secrets.token_hex(16)}"
    try:
        _call([*pip, "wheel", "--quiet", "--retries", "2", "--no-deps", "--wheel-dir", str(arriving), requirement])
        for wheel in arriving.glob("*.whl"):
            os.replace(wheel, wheels / wheel.name)
    finally:
        shutil.rmtree(arriving, ignore_errors=True)


def _missing(requirements: Sequence[str], wheels: Path) -> list[str]:
    there = set()
    for wheel in wheels.glob("*.whl"):
        name, version, *_ = parse_wheel_filename(wheel.name)
        there.add((name, str(version)))
    for arriving in wheels.glob(".*"):  # of a killed install
        shutil.rmtree(arriving, ignore_errors=True)
    return [one for one in requirements if pinned(one) not in there]


def pinned(requirement: str) -> tuple[str, str]:
    """The normalized name of ``name[extra]==version; marker``, and its version."""
    name, _, version = requirement.partition(";")[0].partition("==")
    return canonicalize_name(name.partition("[")[0].strip()), version.strip()


def _checked_python(isolation: Isolation, python: str) -> str:
    try:
        version = subprocess.run(
            [python, "-c", "import platform; print(platform.python_version())"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        raise wrong_python(isolation, f"{python} does not start: {error}") from error
    if version not in SpecifierSet(isolation.python):
        raise wrong_python(isolation, f"{python} is Python {version}; its pins need {isolation.python}")
    return version


def _call(command: list[str]) -> None:
    clean = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    try:
        done = subprocess.run(
            command,
            env=clean,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_CALL_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise PipFailed(f"ERROR: no end after {_CALL_TIMEOUT_S:.0f} s: {' '.join(command[-3:])}") from error
    if done.returncode:
        raise PipFailed(f"{done.stdout}\n{done.stderr}".strip() or f"exit status {done.returncode}")


_UNREACHABLE = re.compile(
    r"(Failed to establish a new connection|Temporary failure in name resolution|Name or service not known|"
    r"Connection refused|Network is unreachable|Cannot connect to proxy|ProxyError|ConnectTimeout|Read timed out|"
    r"SSLError|ConnectionResetError|Connection aborted)[^\n]{0,120}"
)
_NO_ROOM = re.compile(r"No space left on device|Disk quota exceeded|File too large")
_MOST_LINES, _MOST_CHARACTERS = 3, 300


class PipFailed(Exception):  # noqa: N818 - it states what happened
    """A command of pip, uv or venv failed; ``said``: all that it printed."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def install_failed(isolation: Isolation, said: str) -> OptimError:
    """Why an environment could not be made, from what pip printed."""
    what = f"the environment of plugin {isolation.plugin} could not be made"
    again = f"optim plugins install {isolation.plugin}"
    if full := _NO_ROOM.search(said):
        return OptimError.usage(
            "disk-full", what, full[0], f"free some space, or set OPTIM_DATA_DIR to another disk; then: {again}"
        )
    if unreachable := _UNREACHABLE.search(said):
        return OptimError.usage(
            "index-unreachable",
            what,
            f"no connection to the package index: {unreachable[0]}",
            f"{again}   (after the network is back, it continues)",
        )
    return OptimError.usage("isolated-install-failed", what, reason(said), f"{again}   (it continues)")


def reason(said: str) -> str:
    """The lines of pip's output that say why, at most three."""
    _, conflict, causes = said.partition("To fix this you could")[0].partition("The conflict is caused by:")
    lines = [line.strip() for line in (causes if conflict else said).splitlines() if line.strip()]
    if conflict:
        return "\n".join(line[:_MOST_CHARACTERS] for line in lines[:_MOST_LINES] if " " in line)
    chosen = [line for line in lines if line.startswith(("ERROR:", "error:"))] or lines[-_MOST_LINES:]
    return "\n".join(line[:_MOST_CHARACTERS] for line in dict.fromkeys(chosen[:_MOST_LINES]))


def wrong_python(isolation: Isolation, cause: str) -> OptimError:
    """The pins have nothing for this Python; names one of this machine that fits, where there is one."""
    found = fitting_python(isolation.python)
    fix = f"optim plugins install {isolation.plugin} --python {found or 'PATH_OF_A_FITTING_PYTHON'}"
    return OptimError.usage(
        "isolated-python", f"the environment of plugin {isolation.plugin} cannot be made with this Python", cause, fix
    )


def fitting_python(wanted: str) -> str | None:
    """A Python on the search path that fits; asked, since a shim may be there without its Python."""
    for minor in range(30, 8, -1):
        name = f"python3.{minor}"
        if f"3.{minor}.0" in SpecifierSet(wanted) and shutil.which(name):
            done = subprocess.run([name, "-c", ""], capture_output=True, check=False)
            if done.returncode == 0:
                return name
    return None
