"""The host's side: one job of an isolated worker, which is started where none is there yet."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock

from optim.errors import ExitStatus, OptimError
from optim.isolation import server
from optim.isolation.environments import find_environment
from optim.isolation.isolation import Isolation
from optim.isolation.owner import workers_folder

_START_S = 60.0
_SILENCE_S = 30.0
"""A worker whose heartbeat is missing this long is stuck; a library may hold the interpreter for a while."""


def run_isolated(
    isolation: Isolation,
    job: str,
    request: Any,
    *,
    timeout_s: float = 3600.0,
    on_progress: Callable[[float, str], None] | None = None,
) -> Any:
    """Run one job in the plugin's own environment; the worker stays for the next one of this run.

    Args:
        isolation: of the plugin.
        job: function of its jobs file.
        request: JSON values.
        timeout_s: for the job, without the start of the worker.
        on_progress: called with a share in 0..1 and a few words.

    Raises:
        OptimError[not-installed-isolated]: the environment is not there.
        OptimError[isolated-worker-failed]: it did not start, crashed, hung, or wrote something else than the protocol.
        OptimError[isolated-job-failed]: the job raised; with its cause.
    """
    folder = workers_folder() / isolation.plugin
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "busy"), contextlib.closing(_connect(isolation, folder)) as connection:
        deadline = time.monotonic() + timeout_s
        messages = _messages(connection, isolation, folder, deadline)
        hello = next(messages)
        if hello.get("protocol") != server.PROTOCOL:
            raise _failed(isolation, folder, f"it speaks protocol {hello.get('protocol')}, not {server.PROTOCOL}")
        try:
            connection.sendall(json.dumps({"job": job, "request": request}).encode() + b"\n")
        except OSError as error:
            raise _failed(isolation, folder, f"it ended before its job: {error}") from error
        for message in messages:
            if "result" in message:
                return message["result"]
            if "error" in message:
                raise _job_failed(isolation, job, message["error"])
            if message.get("event") == "progress" and on_progress:
                on_progress(message["share"], message["text"])
    raise AssertionError("unreachable: messages end with a result or an error")


def _connect(isolation: Isolation, folder: Path) -> socket.socket:
    with contextlib.suppress(OSError):
        waiting = _open(folder / "socket")
        waiting.settimeout(_SILENCE_S)
        if _greets(waiting):
            return waiting
    (folder / "socket").unlink(missing_ok=True)
    (folder / "binding").unlink(missing_ok=True)
    environment = find_environment(isolation)
    if environment is None:
        raise OptimError(
            "not-installed-isolated", f"plugin {isolation.plugin} has no environment yet",
            "its libraries cannot live beside optim's", f"optim plugins install {isolation.plugin}",
            status=ExitStatus.USAGE,
        )  # fmt: skip
    clean = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [environment.executable, "-s", server.__file__, folder, isolation.jobs],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=clean, cwd=folder, start_new_session=True,
        )  # fmt: skip
    threading.Thread(target=process.wait, daemon=True).start()  # no zombie is left of it
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            return _open(folder / "socket")
        time.sleep(0.02)
    process.kill()
    raise _failed(isolation, folder, f"it did not start (exit status {process.wait()})")


def _greets(connection: socket.socket) -> bool:
    """False where the worker is just ending: the host of its last job was killed."""
    with contextlib.suppress(OSError):
        if connection.recv(1, socket.MSG_PEEK):
            return True
    connection.close()
    return False


def _open(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _messages(
    connection: socket.socket, isolation: Isolation, folder: Path, deadline: float
) -> Iterator[dict[str, Any]]:
    rest = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise _failed(isolation, folder, "its job took too long")
        connection.settimeout(min(left, _SILENCE_S))
        try:
            got = connection.recv(1 << 16)
        except TimeoutError as error:
            what = "it gave no sign of life" if left > _SILENCE_S else "its job took too long"
            raise _failed(isolation, folder, what) from error
        except OSError as error:
            raise _failed(isolation, folder, f"the connection broke: {error}") from error
        if not got:
            raise _failed(isolation, folder, "it ended in the middle of its job")
        *lines, rest = (rest + got).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                raise _failed(isolation, folder, f"it broke the worker protocol: {line[:80]!r}")
            yield message


def _failed(isolation: Isolation, folder: Path, what: str) -> OptimError:
    (folder / "socket").unlink(missing_ok=True)  # the next job starts another
    tail = ""
    with contextlib.suppress(OSError):
        tail = (folder / "log").read_bytes()[-2000:].decode(errors="replace").strip()
    cause = what + (f"; its log ends: {tail.splitlines()[-1][:300]}" if tail else "")
    return OptimError(
        "isolated-worker-failed", f"the worker of plugin {isolation.plugin} failed", cause,
        f"optim plugins remove {isolation.plugin} && optim plugins install {isolation.plugin}",
        status=ExitStatus.INTERNAL,
    )  # fmt: skip


def _job_failed(isolation: Isolation, job: str, error: dict[str, str]) -> OptimError:
    return OptimError(
        "isolated-job-failed", f"{job} of plugin {isolation.plugin} failed",
        f"{error['type']}: {error['message'][:500]}", status=ExitStatus.NOT_HELD,
    )  # fmt: skip
