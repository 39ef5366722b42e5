"""The worker: runs in the plugin's own environment, by its path; the standard library only, never optim.

``python server.py FOLDER JOBS_FILE`` listens on ``FOLDER/socket``. One connection is one job, one JSON object a line::

    worker  {"protocol": 1, "python": "3.11.9"}
    host    {"job": "quantize", "request": {...}}
    worker  {"event": "heartbeat"} | {"event": "progress", "share": 0.5, "text": "..."}
    worker  {"result": ...} | {"error": {"type": ..., "message": ..., "traceback": ...}}

A host that closes the connection in the middle has cancelled: libraries cannot be interrupted, so the worker ends and
the next job starts another. It ends too when the lock ``FOLDER/../owner`` is free: the run is over, however it ended.
"""

import fcntl
import importlib.util
import json
import os
import platform
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

PROTOCOL = 1
_HEARTBEAT_S = 1.0
_OWNER_CHECK_S = 0.5


def main() -> None:
    """Serve jobs until the owner is gone."""
    folder, jobs_file = Path(sys.argv[1]), Path(sys.argv[2])
    os.dup2(2, 1)  # what a library prints lands in the log, never in an answer
    threading.Thread(target=_end_with_owner, args=(folder.parent / "owner",), daemon=True).start()
    spec = importlib.util.spec_from_file_location("optim_isolated_jobs", jobs_file)
    assert spec is not None and spec.loader is not None
    jobs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(jobs)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(folder / "binding"))
    server.listen()
    os.replace(folder / "binding", folder / "socket")  # seen only once it accepts
    while True:
        connection, _ = server.accept()
        _serve(connection, jobs)


def _serve(connection: socket.socket, jobs: Any) -> None:
    lines, lock, finished = connection.makefile("rb"), threading.Lock(), threading.Event()

    def send(message: dict[str, Any]) -> None:
        try:
            with lock:
                connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            _end()

    def beat() -> None:
        while not finished.wait(_HEARTBEAT_S):
            send({"event": "heartbeat"})

    def watch() -> None:
        lines.readline()  # the host says nothing more: this is the end of the connection
        if not finished.is_set():
            _end()

    send({"protocol": PROTOCOL, "python": platform.python_version()})
    line = lines.readline()
    if not line:
        return
    asked = json.loads(line)
    for background in (beat, watch):
        threading.Thread(target=background, daemon=True).start()
    try:
        def progress(share: float, text: str) -> None:
            send({"event": "progress", "share": share, "text": text})

        answer = {"result": getattr(jobs, asked["job"])(asked["request"], progress)}
    except Exception as error:
        answer = {"error": {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}}
    finished.set()
    send(answer)
    connection.shutdown(socket.SHUT_WR)


def _end_with_owner(path: Path) -> None:
    while True:
        try:
            with path.open("rb") as owner:
                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_OWNER_CHECK_S)
            continue
        except OSError:
            pass
        shutil.rmtree(path.parent, ignore_errors=True)  # a killed owner could not
        _end()


def _end() -> None:
    os.killpg(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
