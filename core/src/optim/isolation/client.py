"""The host's side: one job of an isolated worker, which is started where none is there yet."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from optim.errors import ExitStatus, OptimError, is_disk_full
from optim.isolation import server
from optim.isolation.environments import Environment, Isolation, find_environment
from optim.jobs.leftovers import end_group
from optim.jobs.owner import workers_folder
from optim.jobs.talk import Talk, over_socket

Progress = Callable[[float, str], None]
Calls = Mapping[str, Callable[[Any], Any]]

_START_S = 60.0
_SILENCE_S = 60.0
"""A worker whose heartbeat is missing this long is stuck; a library may hold the interpreter for a while."""

_LOG_TAIL_BYTES = 4000
_MOST_CHARACTERS = 500


def run_isolated(
    isolation: Isolation,
    job: str,
    request: Any,
    *,
    timeout_s: float = 3600.0,
    on_progress: Progress | None = None,
    calls: Calls | None = None,
) -> Any:
    """Does one job in the plugin's own environment. The worker stays for the next job of this run.

    Args:
        isolation: environment of the plugin.
        job: name of a function in its jobs file.
        request: JSON values.
        timeout_s: time limit for the job, without the start of the worker.
        on_progress: reports progress, called with a share in 0..1 and a few words.
        calls: functions that the job may call, by name, with JSON values in and out. An exception in one ends the job
            and comes out here.

    Raises:
        OptimError[not-installed-isolated]: the environment is missing.
        OptimError[isolated-worker-failed]: the worker did not start, crashed, hung, or broke the protocol.
        OptimError[isolated-job-failed]: the job raised an error. The error has its cause.
        OptimError[disk-full]: the job had no disk space.
    """
    folder = workers_folder() / isolation.plugin
    folder.mkdir(exist_ok=True)
    calls = calls or {}
    with FileLock(folder / "busy"), contextlib.closing(_Conversation(isolation, folder)) as talk:
        talk.deadline = time.monotonic() + timeout_s
        talk.say({"job": job, "request": request})
        while "result" not in (message := talk.hear()):
            if "error" in message:
                raise _job_failed(f"{job} of plugin {isolation.plugin} failed", message["error"])
            if "call" in message:
                if message["call"] not in calls:
                    raise talk.failed(f"it asked for '{message['call']}', which the pass does not offer")
                started = time.monotonic()
                talk.say({"answer": calls[message["call"]](message.get("argument"))})
                talk.deadline += time.monotonic() - started  # the host's time is not the job's
            elif message.get("event") == "progress" and on_progress:
                on_progress(message["share"], message["text"])
        return message["result"]


class _Conversation:
    """A connection to the worker, greeted; started where there was none."""

    def __init__(self, isolation: Isolation, folder: Path) -> None:
        self.deadline = time.monotonic() + _START_S
        self._isolation = isolation
        self._folder = folder
        self._process = 0
        self._talk = self._greeted() or self._started()

    def close(self) -> None:
        """Leave the worker to the next job."""
        self._talk.close()

    def say(self, message: dict[str, Any]) -> None:
        """Tell the worker something."""
        try:
            self._talk.send(message)
        except OSError as error:
            raise self.failed(f"the connection broke: {error}") from error

    def hear(self) -> dict[str, Any]:
        """The next message of the worker; the end of the connection is an error."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise self.failed("its job took too long")
        try:
            return self._talk.receive(min(left, _SILENCE_S))
        except TimeoutError as error:
            what = "it gave no sign of life" if left > _SILENCE_S else "its job took too long"
            raise self.failed(what) from error
        except EOFError as error:
            raise self.failed("it ended in the middle of its job") from error
        except ValueError as error:
            raise self.failed(f"it broke the worker protocol: {error}") from error
        except OSError as error:
            raise self.failed(f"the connection broke: {error}") from error

    def failed(self, what: str) -> OptimError:
        """Give the worker up, so that the next job starts another, and say why, with what it printed last."""
        (self._folder / "address").unlink(missing_ok=True)
        _kill(self._process)
        said: list[str] = []
        with contextlib.suppress(OSError):
            log = (self._folder / "log").read_bytes()
            said = log[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
        plugin = self._isolation.plugin
        return OptimError(
            "isolated-worker-failed",
            f"the worker of plugin {plugin} failed",
            what + (f"; its log ends: {said[-1][:300]}" if said else ""),
            "run it again: another worker is started; if it fails each time, make its environment again: "
            f"optim plugins remove {plugin} && optim plugins install {plugin}",
            status=ExitStatus.INTERNAL,
        )

    def _greeted(self) -> Talk | None:
        """A worker that is there and answers; None where there is none, or one that is just ending."""
        try:
            address = json.loads((self._folder / "address").read_text())
            connection = socket.create_connection(("127.0.0.1", address["port"]), timeout=_SILENCE_S)
        except (OSError, ValueError, KeyError):
            return None
        self._process = address["process"]
        talk = over_socket(connection)
        try:
            talk.send({"secret": address["secret"]})
            if talk.receive(_SILENCE_S).get("event") == "ready":
                return talk
        except TimeoutError:  # stuck in a job whose host was killed
            _kill(self._process)
        except (EOFError, OSError, ValueError):
            pass
        talk.close()
        return None

    def _started(self) -> Talk:
        (self._folder / "address").unlink(missing_ok=True)
        environment = find_environment(self._isolation)
        if environment is None:
            raise OptimError.usage(
                "not-installed-isolated",
                f"plugin {self._isolation.plugin} has no environment that fits its version",
                "its libraries cannot live beside optim's",
                f"optim plugins install {self._isolation.plugin}",
            )
        process = _start(environment, self._folder, self._isolation.jobs)
        self._process = process.pid
        waiting = threading.Thread(target=process.wait, daemon=True)  # no zombie is left of it
        waiting.start()
        deadline = time.monotonic() + _START_S
        try:
            while time.monotonic() < deadline and waiting.is_alive():
                if talk := self._greeted():
                    return talk
                waiting.join(0.02)
        except BaseException:
            _kill(process.pid)
            raise
        why = f"nothing within {_START_S:.0f} s" if waiting.is_alive() else f"exit status {process.returncode}"
        raise self.failed(f"it did not start: {why}")


def _start(environment: Environment, folder: Path, jobs: Path) -> subprocess.Popen[bytes]:
    clean = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [environment.executable, "-s", server.__file__, folder, jobs],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=clean,
            cwd=folder,
            start_new_session=os.name == "posix",
        )


def _kill(process: int) -> None:
    """A worker that is stuck in a library does not see that its host is gone."""
    if process and os.name == "posix":
        end_group(process)
    elif process:
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGTERM)


def _job_failed(what: str, error: dict[str, Any]) -> OptimError:
    message = str(error.get("message", ""))[:_MOST_CHARACTERS]
    if is_disk_full(error.get("errno")):
        return OptimError.usage("disk-full", what, message, "free some space: optim cache prune")
    fix = "optim plugins doctor; if it finds nothing, report this to the plugin"
    return OptimError("isolated-job-failed", what, f"{error.get('type')}: {message}", fix, status=ExitStatus.NOT_HELD)
