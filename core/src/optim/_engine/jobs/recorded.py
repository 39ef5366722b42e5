"""What a pass says beside its result: its log, what it prints, and what it leaves running."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from optim.jobs.doing import is_worker
from optim.jobs.leftovers import ending_leftovers
from optim.passes import PassResult

_MOST_LINES = 20
"""Lines of a pass's log that a report has: more hide what else it says."""


@dataclass
class Said:
    """What a pass says, known when :func:`recording` has ended.

    Attributes:
        log: lines at INFO and above.
        output: all that was printed; the log is in it where the process is a worker.
    """

    log: list[str]
    left: list[str]
    output: list[str]

    def notes(self, *, changed: bool) -> tuple[str, ...]:
        """What was left running, and the log of a pass that changed something."""
        left = tuple(f"left a process running, which was ended: {name}" for name in self.left)
        return (*self.log, *left) if changed else left

    def printed(self, *, changed: bool) -> tuple[str, ...]:
        """What is no note."""
        rest = tuple(line for line in self.output if line not in self.log)
        return rest if changed else (*self.log, *rest)


@contextmanager
def recording(log: logging.Logger) -> Iterator[Said]:
    """Note what a pass says within; where it raises, its log is at the end of what its process printed."""
    with printed() as output, ending_leftovers() as left, _logged(log) as lines:
        yield Said(lines, left, output)


def recorded(log: logging.Logger, work: Callable[[], PassResult]) -> PassResult:
    """Apply a pass; its result has what it said, as notes or as :attr:`PassResult.printed`."""
    with recording(log) as said:
        result = work()
    if not isinstance(result, PassResult) or not isinstance(result.notes, tuple):
        return result  # whoever distrusts it says what is wrong with it
    notes = (*result.notes, *said.notes(changed=result.changed))
    return replace(result, notes=notes, printed=said.printed(changed=result.changed))


@contextmanager
def _logged(log: logging.Logger) -> Iterator[list[str]]:
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            line = f"{record.levelname.lower()}: {record.getMessage()}"
            print(line, file=sys.stderr)  # of a worker, whose output is kept where it fails
            if len(lines) < _MOST_LINES:
                lines.append(line)

    handler, level = Lines(logging.INFO), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


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
