"""The worker: runs in the plugin's own environment, by its path; the standard library only, never optim.

``python server.py FOLDER JOBS_FILE`` listens on this machine alone and writes where to ``FOLDER/address``, with a
secret that others on the machine cannot read. One connection is one job; JSON objects, as ``jobs/talk.py`` sends them,
a file that is loaded by its path as well::

    host    {"secret": "..."}
    worker  {"event": "ready"}
    host    {"job": "quantize", "request": {...}}
    worker  {"event": "heartbeat"} | {"event": "progress", "share": 0.5, "text": "..."}
    worker  {"call": "accuracy", "argument": ...}       the host answers  {"answer": ...}
    worker  {"result": ...} | {"error": {"type": ..., "message": ..., "errno": ..., "traceback": ...}}

A host that closes the connection in the middle has cancelled: libraries cannot be interrupted, so the worker ends and
the next job starts another. It ends too when the lock ``FOLDER/../owner`` is free: the run is over, however it ended.
"""

import contextlib
import importlib.util
import json
import os
import queue
import secrets
import shutil
import signal
import socket
import sys
import threading
import time
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

_HEARTBEAT_S = 1.0
_OWNER_CHECK_S = 0.5
_GREETING_S = 10.0
_MOST_GREETING_BYTES = 1 << 16


class Host:
    """What a job is given to talk with the host while it works."""

    def __init__(self, talk: Any) -> None:
        self._talk = talk
        self._answers: queue.Queue[Any] = queue.Queue()
        self._finished = threading.Event()

    def report_progress(self, share: float, text: str) -> None:
        """Say how far the job is, 0..1, and what it does."""
        self.send({"event": "progress", "share": share, "text": text})

    def call(self, name: str, argument: Any) -> Any:
        """Ask the host, and wait for its answer; JSON values both ways."""
        self.send({"call": name, "argument": argument})
        return self._answers.get()

    def send(self, message: dict[str, Any]) -> None:
        """Tell the host something; without one there is nothing left to do."""
        try:
            self._talk.send(message)
        except OSError:
            _end()

    def finish(self, message: dict[str, Any]) -> None:
        """Send the last message of a job."""
        self._finished.set()
        self.send(message)

    def beat(self) -> None:
        """Give signs of life until the job is finished."""
        while not self._finished.wait(_HEARTBEAT_S):
            self.send({"event": "heartbeat"})

    def listen(self) -> None:
        """Take answers until the host closes the connection."""
        with contextlib.suppress(EOFError, OSError, ValueError):
            while True:
                self._answers.put(self._talk.receive()["answer"])
        if not self._finished.is_set():
            _end()


def main() -> None:
    """Serve jobs until the owner is gone."""
    folder, jobs_file = Path(sys.argv[1]), Path(sys.argv[2])
    os.dup2(2, 1)  # what a library prints lands in the log, never in an answer
    threading.Thread(target=_end_with_owner, args=(folder.parent / "owner",), daemon=True).start()
    talking = _loaded("optim_isolated_talk", Path(__file__).parents[1] / "jobs" / "talk.py")
    jobs = _loaded("optim_isolated_jobs", jobs_file)
    server = socket.create_server(("127.0.0.1", 0))
    secret = secrets.token_hex(16)
    address = {"port": server.getsockname()[1], "secret": secret, "process": os.getpid()}
    (folder / "binding").write_text(json.dumps(address))
    os.replace(folder / "binding", folder / "address")  # seen only once it accepts
    while True:
        connection, _ = server.accept()
        talk = talking.over_socket(connection)
        with contextlib.closing(talk), contextlib.suppress(EOFError, OSError, ValueError):
            _serve(talk, secret, jobs)


def _loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _serve(talk: Any, secret: str, jobs: ModuleType) -> None:
    hello = talk.receive(_GREETING_S, _MOST_GREETING_BYTES)
    if not secrets.compare_digest(str(hello.get("secret")), secret):
        return
    host = Host(talk)
    host.send({"event": "ready"})
    asked = talk.receive(_GREETING_S)
    listening = threading.Thread(target=host.listen, daemon=True)
    listening.start()
    threading.Thread(target=host.beat, daemon=True).start()
    try:
        answer = {"result": getattr(jobs, asked["job"])(asked["request"], host)}
    except (Exception, SystemExit) as error:
        answer = {
            "error": {
                "type": type(error).__name__,
                "message": str(error),
                "errno": getattr(error, "errno", None),
                "traceback": traceback.format_exc(),
            }
        }
    host.finish(answer)
    listening.join()  # until the host has closed its end


def _end_with_owner(path: Path) -> None:
    while not _is_free(path):
        time.sleep(_OWNER_CHECK_S)
    shutil.rmtree(path.parent, ignore_errors=True)  # a killed owner could not
    _end()


def _is_free(path: Path) -> bool:
    """Returns whether nobody holds the lock, as filelock takes it; also where the file is gone."""
    try:
        with path.open("r+b") as owner:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(owner.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _end() -> None:
    """At once, with everything that the library started."""
    if os.name == "posix":
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


if __name__ == "__main__":
    main()
