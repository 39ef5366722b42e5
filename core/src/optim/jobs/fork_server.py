"""Processes as forks of one that has imported what they need: the server, and its client.

A worker that starts as a program spends 0.5 s of processor time on imports before it does a thing (numpy, onnx,
onnxruntime, pydantic and optim's own); a fork of a process that has them takes some hundredths. A run starts tens of
workers. No plugin is imported here, and no session opened: what a job does stays in its own process.

On Linux alone: elsewhere a fork of a process with frameworks of the system in it is not safe, or there is none.

``python -m optim.jobs.fork_server HANDLE [MODULE ...]`` runs one thread and starts no other, so that a fork is as good
as a new process. It says one packet when it is ready. Then each packet from the client is the module of a job, with
three file descriptors: the worker's end of its connection, what its output goes to, and a socket of packets of its own,
its tether. By the tether the server says ``{"process": ID}`` and in the end ``{"status": STATUS}``; it ends a worker
whose tether is let go. The server ends when its connection is closed and its last worker has ended.
A worker's own connection brings its environment and working folder first.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Mapping, Sequence
from select import select
from typing import IO, Any, NoReturn

from optim.jobs import worker
from optim.jobs.leftovers import MARK_VARIABLE, end_group, end_with_parent
from optim.jobs.seldom import put_off_what_is_seldom_needed
from optim.jobs.talk import inherited

PACKET_BYTES = 4096
"""More than any message takes."""

_IMPORTED_AHEAD = (
    "numpy",
    "numpy.ma",
    "numpy.random",
    "onnx",
    "onnxruntime",
    "optim._engine.jobs.candidate",
    "optim._engine.jobs.ingest",
    "optim._engine.jobs.lane",
    "optim._engine.jobs.offer",
    "optim._engine.jobs.prepare",
    "optim.jobs.wire",
    "optim.onnx.sessions",
    "psutil",
)
"""What nearly every job imports, where none are named: nothing here depends on it; a job that misses one imports it."""

SWITCH = "OPTIM_FORK_SERVER"
"""Environment variable: ``0`` starts each process as a new program instead of a fork (Linux)."""

_READY_S = 60.0
"""For its imports: it only ends a server that hangs; workers are started as programs then."""

_MAY_DIFFER = ("OPTIM_", "XDG_", "PYTEST_CURRENT_TEST", "HOME", "PWD", "OLDPWD", "TMPDIR", "COLUMNS", "LINES")
"""Beginnings of variables that no library reads while it is imported: a worker has its own without another server."""


class Forked:
    """A worker that a server has forked, in its own process group.

    Args:
        tether: to the server, which ends the worker when it is let go.
    """

    def __init__(self, tether: socket.socket) -> None:
        self._tether = tether
        self._hearing = threading.RLock()  # of a signal's handler, too, while this thread waits
        self._process: int | None = None
        self._status: int | None = None

    @property
    def process(self) -> int | None:
        """Its id; None if it could not be forked."""
        with self._hearing:
            if self._process is None and self._status is None:
                self._hear()
            return self._process

    def kill(self) -> None:
        """End the whole process group at once; returns when it has ended."""
        with contextlib.suppress(OSError):  # it has ended
            self._tether.shutdown(socket.SHUT_WR)
        self.wait()

    def wait(self) -> int:
        """The exit status when it has ended, below zero for a signal."""
        with self._hearing:
            while self._status is None:
                self._hear()
            return self._status

    def _hear(self) -> None:
        """Hear the next message of the server; a server that is gone can no longer end what the worker started."""
        packet = b""
        with contextlib.suppress(OSError):
            packet = self._tether.recv(PACKET_BYTES)
        if self._status is not None:  # a signal's handler heard the end meanwhile
            return
        told = json.loads(packet) if packet else {"status": -signal.SIGKILL}
        if not packet and self._process is not None:
            end_group(self._process)
        self._process, self._status = told.get("process", self._process), told.get("status")
        if self._status is not None:
            self._tether.close()


class Server:
    """A fork server.

    Args:
        environment: that it is started with, and its libraries imported in.
        modules: that it imports; none: what nearly every job needs.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, environment: Mapping[str, str], modules: Sequence[str] = ()) -> None:
        self.kind = _kind(environment)
        self._connection, its_end = _pair()
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
        threading.Thread(target=self._see_end, daemon=True).start()

    @property
    def gone(self) -> bool:
        """Whether it forks no more."""
        return self._connection.fileno() < 0

    def _see_end(self) -> None:
        """Leave no zombie of the server, and ask nothing more of it."""
        self._server.wait()
        self._connection.close()

    def fork(self, job: str, handle: int, output: IO[bytes]) -> Forked:
        """A new worker for a job, with its end of a connection, and a file for its output.

        Raises:
            OSError: the server has ended.
        """
        tether, its_end = _pair()
        try:
            with its_end:
                socket.send_fds(self._connection, [job.encode()], [handle, output.fileno(), its_end.fileno()])
        except OSError:
            tether.close()
            raise
        return Forked(tether)

    def retire(self) -> None:
        """End the server when its last worker has ended."""
        with contextlib.suppress(OSError):  # it has ended
            self._connection.shutdown(socket.SHUT_WR)  # also where a fork of this process has the connection too
        self._connection.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Kept:
    """The server of this process: the last one, as long as the environment is of its kind."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
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
        self._guard, self._server = threading.RLock(), None


KEPT = _Kept()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=KEPT.forget)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether workers are forked here."""
    return sys.platform == "linux" and environment.get(SWITCH, "1") != "0"


def _kind(environment: Mapping[str, str]) -> tuple[str, ...]:
    differ = [f"{name}={value}" for name, value in environment.items() if not name.startswith(_MAY_DIFFER)]
    return (sys.executable, *sorted(differ))


def main() -> None:
    """Fork workers until the client is gone."""
    put_off_what_is_seldom_needed()
    for name in sys.argv[2:] or _IMPORTED_AHEAD:
        with contextlib.suppress(Exception):  # what is missing or broken shows in the process that needs it
            importlib.import_module(name)
    os.chdir(os.sep)  # it stands in nobody's way; a worker is told its folder
    gc.freeze()  # pages that the collector does not touch stay shared
    ServerLoop(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


class ServerLoop:
    """Forks workers for a client, ends those whose tethers are let go, and tells how they ended."""

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._client.set_inheritable(False)
        self._tethers: dict[int, socket.socket] = {}
        self._held: dict[socket.socket, int] = {}
        self._learned: set[str] = set()
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wakes, False)

    def serve(self) -> None:
        """Do as the client says until it is gone, and so is the last worker."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing wakes
        signal.set_wakeup_fd(self._wakes)
        clients = [self._client]
        _say(self._client, {})
        while clients or self._tethers:
            watched: list[Any] = [self._woken, *clients, *self._held]
            ready, _, _ = select(watched, [], [])
            for tether in self._held.keys() & set(ready):
                end_group(self._held.pop(tether))
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, PACKET_BYTES)
                self._collect()
            if self._client in ready and not self._obey():
                clients.clear()

    def _obey(self) -> bool:
        """Fork what the client asks for; False where it asks for nothing more."""
        job, handles, _, _ = socket.recv_fds(self._client, PACKET_BYTES, 3)
        if job:
            self._learn(job.decode())
            self._fork(*handles)
        return bool(job)

    def _learn(self, job: str) -> None:
        """Make once what each worker for this job would make, 15 of 80 ms; a plugin's job stays out of this process.

        That is what reads its request, and the types that its module names as ``CHECKED``.
        """
        if job.startswith("optim.") and job not in self._learned:
            self._learned.add(job)
            with contextlib.suppress(Exception):  # the job itself tells better what is wrong
                wire, module = importlib.import_module("optim.jobs.wire"), importlib.import_module(job)
                for kind in (module.Request, *getattr(module, "CHECKED", ())):
                    wire.adapter(kind)
                gc.freeze()

    def _fork(self, connection: int, output: int, handle: int) -> None:
        tether = socket.socket(fileno=handle)
        try:
            with warnings.catch_warnings(action="ignore"):  # threads of numpy's library: it makes new ones after a fork
                process = os.fork()
        except OSError as error:  # no more processes, or no memory for one: it costs this worker alone
            os.write(output, f"no worker could be forked: {error.strerror}".encode())
            _say(tether, {"status": 1})
            tether.close()
        else:
            if process == 0:
                try:
                    tether.close()
                    self._become_worker(connection, output)
                finally:
                    os._exit(1)
            with contextlib.suppress(OSError):  # the child did it first, and has gone on
                os.setpgid(process, process)
            self._tethers[process], self._held[tether] = tether, process
            _say(tether, {"process": process})
        os.close(connection)
        os.close(output)

    def _become_worker(self, connection: int, output: int) -> NoReturn:
        """In a fork: be no part of this server any more, but end with it, and do what the connection brings."""
        os.setpgid(0, 0)
        end_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (self._client, *self._tethers.values()):
            one.close()
        os.dup2(output, 1)
        os.dup2(output, 2)
        for handle in (self._woken, self._wakes, output):
            os.close(handle)
        talk = inherited(connection)
        told = talk.receive()
        os.environ.clear()
        os.environ.update(told["environment"])
        os.chdir(told["folder"])
        tempfile.tempdir = None
        importlib.invalidate_caches()
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed()  # each process had its own seed before there were forks
        worker.work(talk)

    def _collect(self) -> None:
        """Workers that ended take with them what they started; their ids stay taken until then."""
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                end_group(found.si_pid)
                _, status = os.waitpid(found.si_pid, 0)
                tether = self._tethers.pop(found.si_pid, None)
                if tether is not None:  # else it was the server of a program
                    self._held.pop(tether, None)
                    _say(tether, {"status": os.waitstatus_to_exitcode(status)})
                    tether.close()


def _say(to: socket.socket, message: Mapping[str, int]) -> None:
    with contextlib.suppress(OSError):  # the other end is gone: the connection says so
        to.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
