"""The fork server: ``python -m optim.jobs.fork_server HANDLE [MODULE ...]``; it imports what workers need, and forks.

A worker that starts as a program spends 0.5 s of processor time on imports before it does a thing (numpy, onnx,
onnxruntime, pydantic and optim's own); a fork of a process that has them takes some hundredths. A run starts tens of
workers. No plugin is imported here, and no session opened: what a job does stays in its own process.

It runs one thread and starts no other, so that a fork is as good as a new process; it ends when its connection closes.
Messages are packets, from the client ``{"start": NUMBER, "job": MODULE}`` with two file descriptors (the worker's end
of its connection, and what its output goes to) and ``{"kill": NUMBER}``. The client is sent ``{}`` when the server is
ready, then ``{"started": NUMBER, "process": ID}`` and ``{"ended": NUMBER, "status": STATUS}``.
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
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from select import select
from typing import Any

from optim.jobs import worker
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

_OURS = "optim."


def main() -> None:
    """Fork workers until the client is gone."""
    put_off_what_is_seldom_needed()
    _import(sys.argv[2:] or _IMPORTED_AHEAD)
    with contextlib.suppress(Exception):  # kept for all workers: it reads what each installed package says of itself
        importlib.import_module("optim._engine.plugins.discovery").entry_points()
    os.chdir(os.sep)  # it stands in nobody's way; a worker is told its folder
    gc.freeze()  # pages that the collector does not touch stay shared
    ServerLoop(socket.socket(fileno=int(sys.argv[1]))).serve()
    os._exit(0)


def become(told: Mapping[str, Any]) -> None:
    """In a fork: take the environment and the working folder that it is told."""
    os.environ.clear()
    os.environ.update(told["environment"])
    os.chdir(told["folder"])
    tempfile.tempdir = None
    importlib.invalidate_caches()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # each process had its own seed before there were forks


def _import(names: Sequence[str]) -> None:
    for name in names:
        with contextlib.suppress(Exception):  # what is missing or broken shows in the process that needs it
            importlib.import_module(name)


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
            _end_group(process)

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
                _end_group(process)

    def _learn(self, job: str) -> None:
        """Make once what each worker for this job would make, 15 of 80 ms; a plugin's job stays out of this process.

        That is what reads its request, and the types that its module names as ``CHECKED``.
        """
        if job.startswith(_OURS) and job not in self._learned:
            self._learned.add(job)
            with contextlib.suppress(Exception):  # the job itself tells better what is wrong
                wire, module = importlib.import_module("optim.jobs.wire"), importlib.import_module(job)
                for kind in (module.Request, *getattr(module, "CHECKED", ())):
                    wire.adapter(kind)
                gc.freeze()

    def _leave(self) -> None:
        """In a fork: be no part of this server any more."""
        os.setpgid(0, 0)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._client.close()
        for handle in (self._woken, self._wakes):
            os.close(handle)

    def _fork(self, number: int, connection: int, output: int) -> None:
        try:
            process = _fork()
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

    def _become_worker(self, connection: int, output: int) -> None:
        self._leave()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        talk = inherited(connection)
        become(talk.receive())
        worker.work(talk)

    def _collect(self) -> None:
        """Workers that ended take with them what they started; their ids stay taken until then."""
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                _end_group(found.si_pid)
                _, status = os.waitpid(found.si_pid, 0)
                number = self._number_of.pop(found.si_pid, None)
                if number is not None:  # else it was the server of a program
                    self._say({"ended": number, "status": os.waitstatus_to_exitcode(status)})

    def _say(self, message: Mapping[str, int]) -> None:
        with contextlib.suppress(OSError):  # the client is gone: its connection says so
            self._client.send(json.dumps(message).encode())


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # threads of numpy's library: it makes new ones after a fork
        return os.fork()


def _end_group(process: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(process, signal.SIGKILL)


if __name__ == "__main__":
    main()
