"""Plugin code must not write on our standard output: it may be JSON that another program reads."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

_STDOUT, _STDERR = 1, 2


@contextlib.contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Whatever is written on stdout inside appears on stderr: by print, and by libraries and child processes too.

    It changes the process, not the thread: only for the moments in which plugins are loaded and asked.
    """
    _flush()
    with contextlib.redirect_stdout(sys.stderr), _descriptor_on_stderr():
        yield


@contextlib.contextmanager
def _descriptor_on_stderr() -> Iterator[None]:
    try:
        saved = os.dup(_STDOUT)
    except OSError:  # stdout is closed: nothing to keep clean
        yield
        return
    try:
        with contextlib.suppress(OSError):  # stderr is closed
            os.dup2(_STDERR, _STDOUT)
        yield
    finally:
        _flush()
        os.dup2(saved, _STDOUT)
        os.close(saved)


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
