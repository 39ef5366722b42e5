"""Where a case plays: a folder with the user's files, a home, a cache, a temporary folder.

``World.run`` calls the command line in this process, with jobs in threads instead of processes of their own: that is
all the same to files, errors and answers, and costs no start of Python. ``World.start`` is the real thing.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from loaded_once import load_once

from optim._engine.cli.main import main
from optim.jobs import worker
from optim.jobs.process import WorkerFailed, WorkerProcess
from optim.jobs.talk import Channel, Talk, pair

MARKER = "OPTIM_FAULT_WORLD"
"""Set in everything that a case starts, so that what it leaves behind is found."""

_GRACE_S = 10.0
"""How long what was started may take to end after the command: workers see that their pipe is closed."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it printed."""

    status: int
    out: str
    err: str


SHARED: list[Path] = []
"""The folder of what cases of this session share; a fixture fills it in."""


@dataclass
class World:
    """The places of one case.

    Attributes:
        root: holds all others.
        settings: environment variables of the case, beside those that name the places.
    """

    root: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.marker = uuid.uuid4().hex
        for place in (self.work, self.home, self.temporary, self.locks):
            place.mkdir(parents=True, exist_ok=True)
        self.locks.chmod(0o700)

    @property
    def work(self) -> Path:
        """The working folder, where the user's files lie."""
        return self.root / "work"

    @property
    def out(self) -> Path:
        """The run folder."""
        return self.work / "out"

    @property
    def cache(self) -> Path:
        return self.root / "cache"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def locks(self) -> Path:
        return self.root / "locks"

    @property
    def model(self) -> Path:
        """The model that most cases are about."""
        return self.work / "model.onnx"

    def environment(self) -> dict[str, str]:
        """What the command sees."""
        places = {
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / ".cache"),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_RUNTIME_DIR": str(self.locks),
            "OPTIM_CACHE_DIR": str(self.cache),
            "TMPDIR": str(self.temporary),
            "NO_COLOR": "1",
            MARKER: self.marker,
        }
        return {**places, **self.settings}

    def run(self, arguments: Sequence[str]) -> Done:
        """Call the command line here, jobs in threads."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment().items():
                patch.setenv(name, value)
            patch.setenv("OPTIM_FORK_SERVER", "0")  # it would be this process's, and outlive the case
            patch.setattr(tempfile, "tempdir", str(self.temporary))
            patch.setattr("optim._engine.jobs.job.WorkerProcess", ThreadWorker)
            for place in ("discovery", "registry"):  # it is for a process, and jobs of threads overlap
                patch.setattr(f"optim._engine.plugins.{place}.stdout_on_stderr", contextlib.nullcontext)
            patch.chdir(self.work)
            load_once(patch)
            path, modules = list(sys.path), set(sys.modules)
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    status = main(list(arguments))
            finally:
                sys.path[:] = path
                for name in set(sys.modules) - modules:
                    if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(self.root)):
                        del sys.modules[name]
        return Done(int(status), out.getvalue(), err.getvalue())

    def start(self, arguments: Sequence[str], **options) -> subprocess.Popen[str]:
        """Start the command line in a process of its own."""
        command = [sys.executable, "-m", "optim", *arguments]
        defaults = {
            "cwd": self.work,
            "env": {**os.environ, **self.environment()},
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
            "start_new_session": True,
        }
        return subprocess.Popen(options.pop("command", command), **{**defaults, **options})

    def call(self, arguments: Sequence[str], timeout_s: float = 240, shell: str = "", **options) -> Done:
        """Run the command line in a process of its own; a shell may prepare for it, and have it as ``"$@"``."""
        if shell:
            options["command"] = ["bash", "-c", shell, "-", sys.executable, "-m", "optim", *arguments]
        with self.start(arguments, **options) as process:
            try:
                out, err = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        return Done(process.returncode, out or "", err or "")

    def snapshot(self) -> Mapping[str, str]:
        """Every entry outside of OUT, the cache and the locks, with a digest of what it holds."""
        found = {}
        for place in (self.work, self.home, self.temporary):
            for folder, folders, files in os.walk(place):
                folders[:] = [name for name in folders if name != "__pycache__"]  # Python's, of the user's own modules
                for name in (*folders, *files):
                    path = Path(folder) / name
                    ours = (
                        path == self.out or self.out in path.parents or path == self.temporary / f"optim-{os.getuid()}"
                    )
                    if not ours and (self.temporary / f"optim-{os.getuid()}") not in path.parents:
                        found[str(path.relative_to(self.root))] = _digest(path)
        return found

    def result(self) -> Mapping[str, str]:
        """What OUT holds of a result: the mark and the report of a run that delivered none are no part of it."""
        return {
            str(path.relative_to(self.out)): _digest(path)
            for path in sorted(self.out.rglob("*"))
            if path.name != "run.json" and self.out / "not-delivered" not in (path, *path.parents)
        }

    def left_running(self) -> list[str]:
        """Processes that the case started and that have not ended."""
        deadline = time.monotonic() + _GRACE_S
        while (left := self._running()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return left

    def _running(self) -> list[str]:
        wanted, left = f"{MARKER}={self.marker}".encode(), []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if int(process.name) != os.getpid() and wanted in (process / "environ").read_bytes():
                    left.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        return left


class ThreadWorker(WorkerProcess):
    """A worker whose job runs in a thread of this process."""

    def __init__(self, job: str, request: object, *, fresh: bool = False, server: object = None) -> None:
        self.peak_memory_bytes, self.processor_s, self._doing, self._call = 0, 0.0, "", None
        self._stderr = io.BytesIO()  # type: ignore[assignment]
        self._talk, its_end = pair()
        threading.Thread(target=_serve, args=(Talk(its_end),), daemon=True).start()
        self.send({"job": job, "request": request})

    def kill(self) -> None:
        """A thread cannot be killed: it sees that its pipe is closed."""

    def close(self) -> None:
        self._talk.close()

    def _crash(self) -> WorkerFailed:
        return WorkerFailed("its thread ended", "crashed")


def _serve(talk: Talk) -> None:
    """What ``optim.jobs.worker`` does, without the end of its process."""
    requests: queue.Queue[dict[str, object]] = queue.Queue()

    def read() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                requests.put(talk.receive())
        requests.put({})

    threading.Thread(target=read, daemon=True).start()
    channel = Channel(talk, requests)
    with contextlib.suppress(OSError):
        try:
            worker._run(channel)
        except BaseException as error:
            channel.send({"error": worker.describe_error(error), "peak_memory_bytes": 0})


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {path.readlink()}"
    if path.is_dir():
        return "folder"
    if not path.is_file():
        return "special"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.errno}"
