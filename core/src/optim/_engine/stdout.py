"""Standard output of this process, kept clean while code of others runs: it may be JSON that another program reads.

Both functions change the process, not the thread. Threads may use them at the same time: the first turns stdout away,
the last one gives it back.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import TextIO

_STDOUT, _STDERR = 1, 2


class _Diversion:
    """Standard output on stderr as long as a thread asks for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._threads: list[int] = []
        self._stream: TextIO | None = None
        self._descriptor: int | None = None

    def begin(self) -> None:
        """Turn stdout away for one more reason."""
        with self.lock:
            if not self._threads:
                self._turn_away()
            self._threads.append(threading.get_ident())

    def end(self) -> None:
        """Give stdout back if this was the last reason."""
        with self.lock:
            self._threads.remove(threading.get_ident())
            if not self._threads:
                self._give_back()

    def after_fork(self) -> None:
        """Forget the threads that a fork does not have; nobody else would give its stdout back."""
        self.lock = threading.RLock()
        was_away, here = bool(self._threads), threading.get_ident()
        self._threads = [thread for thread in self._threads if thread == here]
        if was_away and not self._threads:
            self._give_back()

    def _turn_away(self) -> None:
        _flush()
        self._stream, sys.stdout = sys.stdout, sys.stderr
        with suppress(OSError):  # stdout is closed: there is nothing to keep clean
            self._descriptor = os.dup(_STDOUT)
            os.dup2(_STDERR, _STDOUT)  # fails if stderr is closed

    def _give_back(self) -> None:
        _flush()
        if self._descriptor is not None:
            os.dup2(self._descriptor, _STDOUT)
            os.close(self._descriptor)
            self._descriptor = None
        if self._stream is not None:
            sys.stdout, self._stream = self._stream, None


_diversion = _Diversion()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_diversion.after_fork)


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Show on stderr whatever is written on stdout: by print, and by libraries and child processes too.

    Use it only for the moments in which plugins are loaded and asked.
    """
    _diversion.begin()
    try:
        yield
    finally:
        _diversion.end()


@contextmanager
def prints_dropped() -> Iterator[None]:
    """Drop what Python code prints; other threads wait with :func:`stdout_on_stderr` meanwhile."""
    with _diversion.lock, redirect_stdout(io.StringIO()):
        yield


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
