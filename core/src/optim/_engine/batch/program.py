"""One run of a batch as a program of its own, on this machine or on a worker of a cluster.

Imports the standard library only: a worker of a cluster loads it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

_WAIT_FOR_FOLDER_S = 30.0
"""A run that was lost with its worker may still be ending in the folder when it is begun again elsewhere."""

_IN_USE = '"folder-in-use"'

_running: set[subprocess.Popen[str]] = set()
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
        if _IN_USE not in answer or time.monotonic() - started > _WAIT_FOR_FOLDER_S:
            return Done(status, answer, time.monotonic() - started, platform.node())
        time.sleep(1.0)


def end_programs() -> None:
    """End every run that this process has begun, and wait until they have ended."""
    with _guard:
        running = list(_running)
    for program in running:
        if program.stdin is not None:
            program.stdin.close()
    for program in running:
        program.wait()


def _run(work: Work) -> tuple[int, str]:
    command = [sys.executable, "-m", "optim._engine.cli.held", *work.arguments]
    with open(work.log, "w", encoding="utf-8") as log:
        pipe = subprocess.PIPE
        environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
        with subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=log, text=True, encoding="utf-8", errors="replace", env=environment
        ) as program:
            with _guard:
                _running.add(program)
            try:
                assert program.stdout is not None
                answer = program.stdout.read()
                return program.wait(), answer
            finally:
                with _guard:
                    _running.discard(program)
