"""Limits on code of a plugin in the process of a command: its time, and its exits. For its prints see ``stdout.py``.

Loading, answering a hook and probing for a device have a limit. On the main thread a clock interrupts Python code, also
one that sleeps or waits for a child. What hangs inside a library cannot be interrupted: then the process says which
plugin it is. A command's own process ends with that; the program of somebody who imports optim goes on.

``sys.exit`` and ``os._exit`` are refused: the command would end in silence, and its status could be 0. An exit from C
cannot be.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn

from optim.errors import ExitStatus, OptimError

_LIMIT_VARIABLE = "OPTIM_PLUGIN_SECONDS"
"""Environment variable: time limit for a plugin to load, in seconds. By default 20."""

_LIMIT_S = 20.0
"""For one plugin to load, or to answer once: a cold import of torch from a slow disk takes half of it, and whoever
needs more makes every command wait."""

_AGAIN_S = 1.0
"""A plugin that caught the interruption is interrupted again so often."""

_GRACE_S = 5.0
"""What cannot be interrupted has so much longer: the interruption may wait for a library's call to return."""


_process_is_ours = threading.Event()


class UnrulyError(BaseException):
    """Code of a plugin did what it may not; no ``except Exception`` of its own swallows it."""


class TookTooLongError(UnrulyError):
    """It did not come back in time."""


def limit_s() -> float:
    """Seconds that a plugin has, as the environment says."""
    try:
        return max(0.1, float(os.environ.get(_LIMIT_VARIABLE, _LIMIT_S)))
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
    """Interrupt what takes too long, and refuse to end the program.

    Args:
        plugin: whose code runs inside.
        doing: what it does, for errors: ``loading``.

    Raises:
        TookTooLongError: it did.
        UnrulyError: it wanted to.
    """
    seconds = limit_s()
    late = f"{doing} did not end within {seconds:.3g} s"
    end = partial(_end, plugin, doing, seconds)
    with _watchdog.watching(seconds + _GRACE_S, end), _interrupting(late, seconds), outliving(doing):
        yield


@contextmanager
def outliving(doing: str) -> Iterator[None]:
    """Refuse to end the program; threads and forks of the plugin's own end as they like.

    Args:
        doing: what runs inside, for errors: ``loading``.

    Raises:
        UnrulyError: it called ``sys.exit`` or ``os._exit``.
    """
    try:
        with _exits.refused():
            yield
    except SystemExit as error:
        how = "os._exit" if isinstance(error, _RefusedExit) else "SystemExit"
        message = f"{doing} would have ended the program ({how}, status {error.code or 0})"
        raise UnrulyError(message) from error


class _RefusedExit(SystemExit):
    """What ``os._exit`` raises while it is refused."""


class _Exits:
    """``os._exit``, which raises in threads whose exits are refused; as it was while there is none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._here = threading.local()
        self._refusing = 0
        self._exit = os._exit

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Refuse exits of this thread."""
        before: int | None = getattr(self._here, "process", None)
        with self._lock:
            self._refusing += 1
            os._exit = self._leave
        self._here.process = os.getpid()
        try:
            yield
        finally:
            self._here.process = before
            with self._lock:
                self._refusing -= 1
                if not self._refusing:
                    os._exit = self._exit

    def begin_anew(self) -> None:
        """Allow exits in a fork, where another thread may have held the lock."""
        self._lock = threading.Lock()
        os._exit = self._exit

    def _leave(self, status: int) -> NoReturn:
        if getattr(self._here, "process", None) == os.getpid():
            raise _RefusedExit(status)
        self._exit(status)


_exits = _Exits()


class _Watchdog:
    """One thread that acts on whatever is not over in time: plugins are asked some three hundred times for a list."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._watched: dict[object, tuple[float, Callable[[], None]]] = {}
        self._wakes = math.inf
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self, seconds: float, act: Callable[[], None]) -> Iterator[None]:
        """Call something unless what is inside is over in so many seconds."""
        mark = object()
        with self._condition:
            end = time.monotonic() + seconds
            self._watched[mark] = end, act
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
            elif end < self._wakes:
                self._condition.notify()
        try:
            yield
        finally:
            with self._condition:
                self._watched.pop(mark, None)

    def _watch(self) -> None:
        while True:
            with self._condition:
                now = time.monotonic()
                late = [mark for mark, (end, _) in self._watched.items() if end <= now]
                acts = [self._watched.pop(mark)[1] for mark in late]
                self._wakes = min((end for end, _ in self._watched.values()), default=math.inf)
                if not acts:
                    self._condition.wait(None if math.isinf(self._wakes) else self._wakes - now)
            for act in acts:
                act()


_watchdog = _Watchdog()


def _begin_anew() -> None:
    """A fork has none of the threads of who forked it, and ends by itself."""
    global _watchdog, _exits
    _watchdog = _Watchdog()
    _exits.begin_anew()
    _exits = _Exits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def _interrupting(message: str, seconds: float) -> Iterator[None]:
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
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
        f"optim --disable-plugin {plugin} ...   # or more time: {_LIMIT_VARIABLE}=60",
        plugin,
        ExitStatus.INTERNAL,
    )
    sys.stderr.write(f"{error}\n")
    sys.stderr.flush()
    if _process_is_ours.is_set():
        os._exit(ExitStatus.INTERNAL)
