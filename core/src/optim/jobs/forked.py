"""Processes as forks of one that has imported what they need: the client of ``optim.jobs.fork_server``.

On Linux alone: elsewhere a fork of a process with frameworks of the system in it is not safe, or there is none.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO

from optim.jobs.fork_server import PACKET_BYTES
from optim.jobs.leftovers import MARK_VARIABLE

SWITCH = "OPTIM_FORK_SERVER"
"""Environment variable: ``0`` starts each process as a new program instead of a fork (Linux)."""

_READY_S = 60.0
"""For its imports: it only ends a server that hangs; workers are started as programs then."""

_MAY_DIFFER = ("OPTIM_", "XDG_", "PYTEST_CURRENT_TEST", "HOME", "PWD", "OLDPWD", "TMPDIR", "COLUMNS", "LINES")
"""Beginnings of variables that no library reads while it is imported: a worker has its own without another server."""


class Forked:
    """A worker that a server has forked, in its own process group.

    Args:
        server: forks it, and says when it ended.
        number: of the worker there.

    Attributes:
        process: its id, as soon as the server has told it.
    """

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._number = number
        self._ended = threading.Event()
        self._status = -int(signal.SIGKILL)
        self.process: int | None = None

    def kill(self) -> None:
        """End the whole process group at once; returns when it has ended."""
        if not self._ended.is_set():
            self._server.tell({"kill": self._number})
        self._ended.wait()

    def wait(self) -> int:
        """The exit status when it has ended, below zero for a signal."""
        self._ended.wait()
        return self._status

    def end(self, status: int) -> None:
        """Note that it has ended."""
        self._status = status
        self._ended.set()

    def outlive_server(self) -> None:
        """End it where the server that should have done so is gone."""
        if self.process is not None:
            with contextlib.suppress(OSError):
                os.killpg(self.process, signal.SIGKILL)
        self._ended.set()


class Server:
    """A fork server, and what it has forked.

    Args:
        environment: that it is started with, and its libraries imported in.
        modules: that it imports; none: what nearly every job needs.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self.kind = _kind(environment)
        self.gone = False
        self._guard = threading.RLock()
        self._workers: dict[int, Forked] = {}
        self._count = 0
        self._connection, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its_end:
            self._server = subprocess.Popen(
                [sys.executable, "-P", "-m", "optim.jobs.fork_server", str(its_end.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in environment.items() if name != MARK_VARIABLE},
                pass_fds=(its_end.fileno(),),
                start_new_session=True,
            )
        self._wait_until_ready()
        threading.Thread(target=self._listen, daemon=True).start()

    def fork(self, job: str, handle: int, output: IO[bytes]) -> Forked:
        """A new worker for a job, with its end of a connection, and a file for its output.

        Raises:
            OSError: the server has ended.
        """
        with self._guard:
            if self.gone:
                raise OSError("the fork server has ended")
            self._count += 1
            message = json.dumps({"start": self._count, "job": job}).encode()
            socket.send_fds(self._connection, [message], [handle, output.fileno()])
            forked = self._workers[self._count] = Forked(self, self._count)
        return forked

    def tell(self, message: Mapping[str, int]) -> None:
        """Say something to the server; one that is gone has ended its workers."""
        with self._guard, contextlib.suppress(OSError):
            self._connection.send(json.dumps(message).encode())

    def retire(self) -> None:
        """End the server when its last worker has ended."""
        with self._guard:
            self.gone = True
            self._end_if_idle()

    def _wait_until_ready(self) -> None:
        try:
            self._connection.settimeout(_READY_S)
            if not self._connection.recv(PACKET_BYTES):
                raise ConnectionError("the fork server ended before it was ready")
            self._connection.settimeout(None)
        except OSError:  # TimeoutError is one
            self._connection.close()
            self._server.kill()
            self._server.wait()
            raise

    def _end_if_idle(self) -> None:
        if self.gone and not self._workers:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while packet := self._connection.recv(PACKET_BYTES):
                message = json.loads(packet)
                with self._guard:
                    if "started" in message:
                        self._workers[message["started"]].process = message["process"]
                    else:
                        self._workers.pop(message["ended"]).end(message["status"])
                        self._end_if_idle()
        with self._guard:
            self.gone = True
            for forked in self._workers.values():
                forked.outlive_server()
            self._workers.clear()
            self._connection.close()
        self._server.wait()


class _Kept:
    """The server of this process: the last one, as long as the environment is of its kind."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._server: Server | None = None
        self._hopeless: tuple[str, ...] = ()

    def get(self, environment: Mapping[str, str]) -> Server:
        """The server, which is started when there is none.

        Raises:
            OSError: it cannot be started.
        """
        kind = _kind(environment)
        with self._guard:
            server = self._server
            if server is not None and not server.gone:
                if server.kind == kind:
                    return server
                server.retire()
            if self._hopeless == kind:
                raise ConnectionError("no fork server can be started in this environment")
            try:
                self._server = server = Server(environment)
            except OSError:
                self._hopeless = kind
                raise
            return server

    def forget(self) -> None:
        """In a fork of this process: the server is its parent's."""
        self._guard, self._server = threading.Lock(), None


KEPT = _Kept()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=KEPT.forget)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether workers are forked here."""
    return sys.platform == "linux" and environment.get(SWITCH, "1") != "0"


def _kind(environment: Mapping[str, str]) -> tuple[str, ...]:
    differ = [f"{name}={value}" for name, value in environment.items() if not name.startswith(_MAY_DIFFER)]
    return (sys.executable, *sorted(differ))
