"""Processes as forks of one that has imported what they need: the server, and the side of who starts workers.

A worker that starts as a program spends 0.5 s of processor time on imports before it does a thing (numpy, onnx,
onnxruntime, pydantic and optim's own); a fork of a process that has them takes some hundredths. A run starts tens of
workers. No plugin is imported here, and no session opened: what a job does stays in its own process.

On Linux alone: elsewhere a fork of a process with frameworks of the system in it is not safe, or there is none.

``python -m optim.jobs.fork_server HANDLE [MODULE ...]`` runs one thread and starts no other, so that a fork is as good
as a new process; it ends when its connection closes. Messages are packets, from the client ``{"start": NUMBER, "job":
MODULE}`` with two file descriptors (the worker's end of its connection, and what its output goes to) and ``{"kill":
NUMBER}``. The client is sent ``{}`` when the server is ready, then ``{"started": NUMBER, "process": ID}`` and
``{"ended": NUMBER, "status": STATUS}``. A worker's own connection brings its environment and working folder first.
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
from concurrent.futures import Future
from select import select
from typing import IO, NoReturn

from optim.jobs import worker
from optim.jobs.leftovers import MARK_VARIABLE, end_group
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
        server: forks it, and says when it ended.
        number: of the worker there.

    Attributes:
        process: its id, as soon as the server has told it.
        status: its exit status, when it has ended.
    """

    def __init__(self, server: Server, number: int) -> None:
        self._server = server
        self._number = number
        self.process: int | None = None
        self.status: Future[int] = Future()

    def kill(self) -> None:
        """End the whole process group at once; returns when it has ended."""
        if not self.status.done():
            self._server.kill(self._number)
        self.status.result()

    def wait(self) -> int:
        """The exit status when it has ended, below zero for a signal."""
        return self.status.result()


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

    def kill(self, number: int) -> None:
        """End the process group of a worker; a server that is gone has ended all of them."""
        with self._guard, contextlib.suppress(OSError):
            self._connection.send(json.dumps({"kill": number}).encode())

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
                        self._workers.pop(message["ended"]).status.set_result(message["status"])
                        self._end_if_idle()
        with self._guard:
            self.gone = True
            for forked in self._workers.values():
                if forked.process is not None:
                    end_group(forked.process)
                forked.status.set_result(-signal.SIGKILL)
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


def main() -> None:
    """Fork workers until the client is gone."""
    put_off_what_is_seldom_needed()
    for name in sys.argv[2:] or _IMPORTED_AHEAD:
        with contextlib.suppress(Exception):  # what is missing or broken shows in the process that needs it
            importlib.import_module(name)
    with contextlib.suppress(Exception):  # kept for all workers: it reads what each installed package says of itself
        importlib.import_module("optim._engine.plugins.discovery").entry_points()
    os.chdir(os.sep)  # it stands in nobody's way; a worker is told its folder
    gc.freeze()  # pages that the collector does not touch stay shared
    ServerLoop(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


class ServerLoop:
    """Forks workers, and tells how they ended.

    Args:
        client: a connection of packets.
    """

    def __init__(self, client: socket.socket) -> None:
        self._client = client
        self._client.set_inheritable(False)
        self._number_of: dict[int, int] = {}
        self._learned: set[str] = set()
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wakes, False)

    def serve(self) -> None:
        """Do as the client says until it is gone; workers that are still running end with it."""
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler nothing wakes
        signal.set_wakeup_fd(self._wakes)
        self._say({})
        while True:
            ready, _, _ = select([self._client.fileno(), self._woken], [], [])
            if self._woken in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, PACKET_BYTES)
                self._collect()
            if self._client.fileno() in ready:
                try:
                    self._obey()
                except EOFError:
                    break
        for process in self._number_of:
            end_group(process)

    def _obey(self) -> None:
        """One message.

        Raises:
            EOFError: there are no more.
        """
        packet, handles, _, _ = socket.recv_fds(self._client, PACKET_BYTES, 2)
        if not packet:
            raise EOFError
        message = json.loads(packet)
        if "start" in message:
            self._learn(message["job"])
            self._fork(message["start"], *handles)
        for process, number in self._number_of.items():
            if number == message.get("kill"):
                end_group(process)

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

    def _fork(self, number: int, connection: int, output: int) -> None:
        try:
            with warnings.catch_warnings(action="ignore"):  # threads of numpy's library: it makes new ones after a fork
                process = os.fork()
            if process == 0:
                try:
                    self._become_worker(connection, output)
                finally:
                    os._exit(1)
        except OSError as error:  # no more processes, or no memory for one: it costs this worker alone
            os.write(output, f"no worker could be forked: {error.strerror}".encode())
            self._say({"ended": number, "status": 1})
        else:
            with contextlib.suppress(OSError):  # the child did it first, and has gone on
                os.setpgid(process, process)
            self._number_of[process] = number
            self._say({"started": number, "process": process})
        os.close(connection)
        os.close(output)

    def _become_worker(self, connection: int, output: int) -> NoReturn:
        """In a fork: be no part of this server any more, and do what the other end of the connection says."""
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._client.close()
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
                number = self._number_of.pop(found.si_pid, None)
                if number is not None:  # else it was the server of a program
                    self._say({"ended": number, "status": os.waitstatus_to_exitcode(status)})

    def _say(self, message: Mapping[str, int]) -> None:
        with contextlib.suppress(OSError):  # the client is gone: its connection says so
            self._client.send(json.dumps(message).encode())


if __name__ == "__main__":
    main()
