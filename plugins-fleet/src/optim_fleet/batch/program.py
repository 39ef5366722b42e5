"""One run of a batch as a program of its own, on this machine or on a worker of a cluster.

Imports the standard library, no more: a worker of a cluster loads it.
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
from typing import IO

_WAIT_FOR_FOLDER_S = 30.0
"""A run that was lost with its worker may still be ending in the folder when it is begun again elsewhere."""

_running: set[subprocess.Popen[bytes]] = set()
_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class ProgramWork:
    """One run.

    Attributes:
        arguments: after ``optim``.
        log: file that takes what it says.
    """

    arguments: tuple[str, ...]
    log: str


@dataclass(frozen=True, slots=True)
class ProgramEnd:
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


def run_program(work: ProgramWork) -> ProgramEnd:
    """Run ``optim`` with the arguments; its folder may be held for a moment by one that is ending."""
    started = time.monotonic()
    while True:
        status, answer = _run(work)
        if not _is_in_use(answer) or time.monotonic() - started > _WAIT_FOR_FOLDER_S:
            return ProgramEnd(status, answer, time.monotonic() - started, platform.node())
        time.sleep(1.0)


def _is_in_use(answer: str) -> bool:
    """Whether another run is filling the folder, as the error says that was printed."""
    with suppress(ValueError, KeyError, TypeError):
        return bool(json.loads(answer)["error"]["reference"] == "folder-in-use")
    return False


def end_programs() -> None:
    """End every run that this process has begun, and wait until they have ended."""
    with _guard:
        running = list(_running)
    for program in running:
        with suppress(OSError):
            program.stdin.close()  # type: ignore[union-attr]  # it has pipes
    for program in running:
        program.wait()


def _run(work: ProgramWork) -> tuple[int, str]:
    with open(work.log, "wb") as log, _started(work, log) as program:
        with _guard:
            _running.add(program)
        try:
            answer = program.stdout.read().decode("utf-8", "replace")  # type: ignore[union-attr]  # it has pipes
            return program.wait(), answer
        finally:
            with _guard:
                _running.discard(program)


@contextmanager
def _started(work: ProgramWork, log: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "optim_fleet.batch.held", *work.arguments]
    environment, pipe = {**os.environ, "PYTHONIOENCODING": "utf-8"}, subprocess.PIPE
    program = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=environment)
    assert program.stdin is not None and program.stdout is not None
    try:
        yield program
    finally:
        with suppress(OSError):
            program.stdin.close()
        program.stdout.close()
        program.wait()
