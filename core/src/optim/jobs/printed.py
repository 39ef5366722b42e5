"""What code prints, by ``print``, in libraries and in processes that it starts, as lines."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from optim.jobs.doing import is_worker

_STDERR = 2
_MOST_BYTES = 20_000
MOST_LINES = 40
"""Of what was printed, that a report has: the last ones tell most."""


@contextmanager
def printed() -> Iterator[list[str]]:
    """In a worker, whose output is a file: the last lines that were printed within, in the list at the end."""
    lines: list[str] = []
    if not is_worker() or not _is_file(_STDERR):
        yield lines
        return
    _flush()
    start = os.lseek(_STDERR, 0, os.SEEK_END)
    try:
        yield lines
    finally:
        _flush()
        end = os.lseek(_STDERR, 0, os.SEEK_END)
        os.lseek(_STDERR, max(start, end - _MOST_BYTES), os.SEEK_SET)
        text = os.read(_STDERR, min(end - start, _MOST_BYTES))
        os.lseek(_STDERR, 0, os.SEEK_END)
        lines += last_lines(text.decode(errors="replace"))


def last_lines(text: str) -> list[str]:
    """The last lines that say something."""
    return [line.rstrip() for line in text.splitlines() if line.strip()][-MOST_LINES:]


def _is_file(handle: int) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISREG(os.fstat(handle).st_mode)
    return False


def _flush() -> None:
    """Python's streams, and those of the C library, which a vendor's own library prints by."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if os.name == "posix":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)
