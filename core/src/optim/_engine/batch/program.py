"""One run of a batch as a program of its own, on this machine or on a worker of a cluster.

On Linux it is a fork of a server that all runs of the batch share. Imports the standard library and what starts
processes, no more: a worker of a cluster loads it.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Protocol

from optim.jobs.forked import can_fork, end_server, fork_program
from optim.jobs.process import environment_of_workers

_WAIT_FOR_FOLDER_S = 30.0
"""A run that was lost with its worker may still be ending in the folder when it is begun again elsewhere."""

_FORKED = "optim._engine.cli.held_fork"


class _Program(Protocol):
    """What has been started."""

    def wait(self) -> int:
        """Its exit status, when it has ended."""


@dataclass(frozen=True, eq=False)
class _Run:
    """A run that goes on: its program, and what it is held and read by."""

    program: _Program
    stdin: IO[bytes]
    stdout: IO[bytes]


_running: set[_Run] = set()
_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class Work:
    """One run.

    Attributes:
        arguments: after ``optim``.
        log: file that takes what it says.
    """

    arguments: tuple[str, ...]
    log: str


@dataclass(frozen=True, slots=True)
class Done:
    """What came of a run.

    Attributes:
        status: that it exited with; negative: the signal that ended it.
        answer: what it printed on stdout, JSON.
        seconds: that it took.
        host: the machine.
    """

    status: int
    answer: str
    seconds: float
    host: str


def run_program(work: Work) -> Done:
    """Run ``optim`` with the arguments; its folder may be held for a moment by one that is ending."""
    started = time.monotonic()
    while True:
        status, answer = _run(work)
        if not _is_in_use(answer) or time.monotonic() - started > _WAIT_FOR_FOLDER_S:
            return Done(status, answer, time.monotonic() - started, platform.node())
        time.sleep(1.0)


def _is_in_use(answer: str) -> bool:
    """Whether another run is filling the folder, as the error says that was printed."""
    with suppress(ValueError, KeyError, TypeError):
        return bool(json.loads(answer)["error"]["reference"] == "folder-in-use")
    return False


def end_programs() -> None:
    """End every run that this process has begun, wait until they have ended, and end the server of them all."""
    with _guard:
        running = list(_running)
    for run in running:
        with suppress(OSError):
            run.stdin.close()
    for run in running:
        run.program.wait()
    end_server()


def _run(work: Work) -> tuple[int, str]:
    with open(work.log, "wb") as log, _started(work, log) as run:
        with _guard:
            _running.add(run)
        try:
            answer = run.stdout.read().decode("utf-8", "replace")
            return run.program.wait(), answer
        finally:
            with _guard:
                _running.discard(run)


@contextmanager
def _started(work: Work, log: IO[bytes]) -> Iterator[_Run]:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    run = None
    if can_fork(environment):
        with suppress(OSError):  # no server: it is started as a program
            run = _forked(work, log, environment)
    if run is None:
        command = [sys.executable, "-m", "optim._engine.cli.held", *work.arguments]
        pipe = subprocess.PIPE
        program = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=environment)
        assert program.stdin is not None and program.stdout is not None
        run = _Run(program, program.stdin, program.stdout)
    try:
        yield run
    finally:
        with suppress(OSError):
            run.stdin.close()
        run.stdout.close()
        run.program.wait()


def _forked(work: Work, log: IO[bytes], environment: dict[str, str]) -> _Run:
    """The run as a fork.

    Raises:
        OSError: there is nothing to fork it of.
    """
    its_stdin, stdin = os.pipe()
    stdout, its_stdout = os.pipe()
    held, read = os.fdopen(stdin, "wb", buffering=0), os.fdopen(stdout, "rb")
    try:
        program = fork_program(_FORKED, [its_stdin, its_stdout, log.fileno()], environment_of_workers())
        told = {"arguments": work.arguments, "environment": environment, "folder": os.getcwd()}  # noqa: PTH109 - a string
        held.write(json.dumps(told).encode() + b"\n")
    except OSError:
        held.close()
        read.close()
        raise
    finally:
        os.close(its_stdin)
        os.close(its_stdout)
    return _Run(program, held, read)
