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
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock

from optim.errors import ExitStatus, OptimError, is_disk_full
from optim.isolation import server
from optim.isolation.environments import Isolation, find_environment
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
    with FileLock(folder / "busy"), contextlib.closing(_Conversation(isolation, folder)) as talk:
        talk.deadline = time.monotonic() + timeout_s
        talk.say({"job": job, "request": request})
        for message in talk.messages():
            if "result" in message:
                return message["result"]
            if "error" in message:
                raise _job_failed(isolation, job, message["error"])
            if "call" in message:
                talk.say({"answer": _called(talk, calls or {}, message)})
            elif message.get("event") == "progress" and on_progress:
                on_progress(message["share"], message["text"])
    raise AssertionError("unreachable: messages end with a result or an error")


def _job_failed(isolation: Isolation, job: str, error: dict[str, Any]) -> OptimError:
    what = f"{job} of plugin {isolation.plugin} failed"
    message = str(error.get("message", ""))[:_MOST_CHARACTERS]
    if is_disk_full(error.get("errno")):
        return OptimError.usage("disk-full", what, message, "free some space: optim cache prune")
    fix = "optim plugins doctor; if it finds nothing, report this to the plugin"
    return OptimError("isolated-job-failed", what, f"{error.get('type')}: {message}", fix, status=ExitStatus.NOT_HELD)


def _called(talk: _Conversation, calls: Calls, message: dict[str, Any]) -> Any:
    if message["call"] not in calls:
        raise talk.failed(f"it asked for '{message['call']}', which the pass does not offer")
    started = time.monotonic()
    answer = calls[message["call"]](message.get("argument"))
    talk.deadline += time.monotonic() - started  # the host's time is not the job's
    return answer


class _Conversation:
    """A connection to the worker, greeted; started where there was none."""

    def __init__(self, isolation: Isolation, folder: Path) -> None:
        self.deadline = time.monotonic() + _START_S
        self._isolation = isolation
        self._folder = folder
        self._process = 0
        self._talk = self._greeted() or self._started()

    def close(self) -> None:
        """End it; the worker stays."""
        self._talk.close()

    def say(self, message: dict[str, Any]) -> None:
        """Tell the worker something."""
        try:
            self._talk.send(message)
        except OSError as error:
            raise self.failed(f"the connection broke: {error}") from error

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the worker says, without end: an end of the connection is an error."""
        while True:
            left = self.deadline - time.monotonic()
            try:
                yield self._talk.receive(min(left, _SILENCE_S))
            except TimeoutError as error:
                what = "it gave no sign of life" if left > _SILENCE_S else "its job took too long"
                raise self.failed(what) from error
            except EOFError as error:
                raise self.failed("it ended in the middle of its job") from error
            except ValueError as error:
                raise self.failed(f"it broke the worker protocol: {error}") from error
            except OSError as error:
                raise self.failed(f"the connection broke: {error}") from error
            if left <= 0:
                raise self.failed("its job took too long")

    def failed(self, what: str) -> OptimError:
        """Give the worker up, so that the next job starts another, and say why."""
        (self._folder / "address").unlink(missing_ok=True)
        _kill(self._process)
        printed: list[str] = []
        with contextlib.suppress(OSError):
            log = (self._folder / "log").read_bytes()[-_LOG_TAIL_BYTES:]
            printed = log.decode(errors="replace").strip().splitlines()
        plugin = self._isolation.plugin
        return OptimError(
            "isolated-worker-failed",
            f"the worker of plugin {plugin} failed",
            what + (f"; its log ends: {printed[-1][:300]}" if printed else ""),
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
            ready = talk.receive(_SILENCE_S).get("event") == "ready"
        except (EOFError, OSError, ValueError) as error:
            talk.close()
            if isinstance(error, TimeoutError):  # stuck in a job whose host was killed
                _kill(self._process)
            return None
        if not ready:
            talk.close()
            return None
        return talk

    def _started(self) -> Talk:
        (self._folder / "address").unlink(missing_ok=True)
        environment = find_environment(self._isolation)
        if environment is None:
            plugin = self._isolation.plugin
            raise OptimError.usage(
                "not-installed-isolated",
                f"plugin {plugin} has no environment that fits its version",
                "its libraries cannot live beside optim's",
                f"optim plugins install {plugin}",
            )
        clean = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
        with (self._folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [environment.executable, "-s", server.__file__, self._folder, self._isolation.jobs],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean,
                cwd=self._folder,
                start_new_session=os.name == "posix",
            )
        self._process = process.pid
        ended = threading.Event()

        def collect() -> None:  # no zombie is left of it
            process.wait()
            ended.set()

        threading.Thread(target=collect, daemon=True).start()
        deadline = time.monotonic() + _START_S
        try:
            while time.monotonic() < deadline and not ended.is_set():
                if talk := self._greeted():
                    return talk
                ended.wait(0.02)
        except BaseException:
            _kill(process.pid)
            raise
        why = f"exit status {process.returncode}" if ended.is_set() else f"nothing within {_START_S:.0f} s"
        raise self.failed(f"it did not start: {why}")


def _kill(process: int) -> None:
    """A worker that is stuck in a library does not see that its host is gone."""
    if process:
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(process, signal.SIGKILL)
            else:
                os.kill(process, signal.SIGTERM)
