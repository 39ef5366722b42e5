"""What is held off while code of a plugin runs in the process of a command: its prints, and its time.

Standard output may be JSON that another program reads: what a plugin writes there goes to stderr. Loading, answering a
hook and probing for a device have a limit. On the main thread a clock interrupts Python code, also one that sleeps or
waits for a child. What hangs inside a library cannot be interrupted: then the process says which plugin it is. A
command's own process ends with that; the program of somebody who imports optim goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from types import FrameType

from optim.errors import ExitStatus, OptimError

_STDOUT, _STDERR = 1, 2

LIMIT_VARIABLE = "OPTIM_PLUGIN_SECONDS"

_LIMIT_S = 20.0
"""For one plugin to load, or to answer once: a cold import of torch from a slow disk takes half of it, and whoever
needs more makes every command wait."""

_AGAIN_S = 1.0
"""A plugin that caught the interruption is interrupted again so often."""

_GRACE_S = 5.0
"""What cannot be interrupted has so much longer: the interruption may wait for a library's call to return."""


_process_is_ours = threading.Event()


class TookTooLongError(BaseException):
    """Code of a plugin did not come back in time; no ``except Exception`` of its own swallows it."""


def limit_s() -> float:
    """Seconds that a plugin has, as the environment says."""
    try:
        return max(0.1, float(os.environ.get(LIMIT_VARIABLE, _LIMIT_S)))
    except ValueError:
        return _LIMIT_S


def process_is_a_command() -> None:
    """Let a plugin that cannot be interrupted end this process, which would hang with it and holds nobody's work."""
    _process_is_ours.set()


def is_a_command() -> bool:
    """Whether this process is a command of ours, and no program of a user."""
    return _process_is_ours.is_set()


@contextmanager
def limited(plugin: str, doing: str) -> Iterator[None]:
    """Interrupt what takes too long.

    Args:
        plugin: whose code runs inside.
        doing: what it does, for errors: ``loading``.

    Raises:
        TookTooLongError: it did.
    """
    seconds = limit_s()
    watchdog = threading.Timer(seconds + _GRACE_S, _end, (plugin, doing, seconds))
    watchdog.daemon = True
    watchdog.start()
    try:
        with _interrupting(f"{doing} did not end within {seconds:.3g} s", seconds):
            yield
    finally:
        watchdog.cancel()


@contextmanager
def _interrupting(message: str, seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise TookTooLongError(message)

    before = signal.signal(signal.SIGALRM, interrupt)
    left, every = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left, every)
        signal.signal(signal.SIGALRM, before)


def _end(plugin: str, doing: str, seconds: float) -> None:
    """Say who hangs; end the process where it is a command's."""
    error = OptimError(
        "plugin-hangs",
        f"plugin {plugin} hangs",
        f"{doing} did not end within {seconds:.3g} s, and cannot be interrupted",
        f"optim --disable-plugin {plugin} ...   # or more time: {LIMIT_VARIABLE}=60",
        plugin,
        ExitStatus.INTERNAL,
    )
    sys.stderr.write(f"{error}\n")
    sys.stderr.flush()
    if _process_is_ours.is_set():
        os._exit(ExitStatus.INTERNAL)


@contextmanager
def stdout_on_stderr() -> Iterator[None]:
    """Whatever is written on stdout inside appears on stderr: by print, and by libraries and child processes too.

    It changes the process, not the thread: only for the moments in which plugins are loaded and asked.
    """
    _flush()
    with redirect_stdout(sys.stderr), _descriptor_on_stderr():
        yield


@contextmanager
def _descriptor_on_stderr() -> Iterator[None]:
    try:
        saved = os.dup(_STDOUT)
    except OSError:  # stdout is closed: nothing to keep clean
        yield
        return
    try:
        with suppress(OSError):  # stderr is closed
            os.dup2(_STDERR, _STDOUT)
        yield
    finally:
        _flush()
        os.dup2(saved, _STDOUT)
        os.close(saved)


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
