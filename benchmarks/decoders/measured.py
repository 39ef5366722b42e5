"""A command with its duration and the peak memory of its processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from memory import descendants, high_water_bytes

_EVERY_S = 0.05
_TAIL = 600


@dataclass(frozen=True, slots=True)
class Done:
    """What a command came to.

    Attributes:
        status: exit status; negative: a signal; None: it took too long.
        seconds: wall time.
        peak_bytes: largest resident set of any of its processes.
        tail: the end of what it said.
    """

    status: int | None
    seconds: float
    peak_bytes: int
    tail: str


def run(command: Sequence[str], log: Path, timeout_s: float, environment: Mapping[str, str] | None = None) -> Done:
    """Run a command to its end, in a process group of its own, where the log lies: tools leave files where they stand.

    Linux only, as ``memory.py`` is.
    """
    started = time.monotonic()
    peak = 0
    with log.open("wb") as stream:
        process = subprocess.Popen(
            list(command),
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            cwd=log.parent,
        )
        try:
            while process.poll() is None:
                peak = max([peak, *map(high_water_bytes, descendants(process.pid))])
                if time.monotonic() - started > timeout_s:
                    break
                time.sleep(_EVERY_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            status = process.wait() if time.monotonic() - started <= timeout_s else None
            process.wait()
    text = log.read_text(errors="replace").strip()
    return Done(status, time.monotonic() - started, peak, text[-_TAIL:])
