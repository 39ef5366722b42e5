"""What a worker is busy with, known to its parent: a runtime that ends the process says no last word of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, order=True)
class Limit:
    """How long code of a plugin may run.

    Attributes:
        seconds: None: as long as its job.
        why: whose limit that is.
        of_each: whether several calls together may take so many times as long.
    """

    seconds: float | None = None
    why: str = ""
    of_each: bool = False

    def times(self, count: int) -> Limit:
        """The limit of so many calls together."""
        return replace(self, seconds=count * self.seconds) if self.seconds is not None and self.of_each else self


NO_LIMIT = Limit()


@dataclass(frozen=True, slots=True)
class PluginCall:
    """Code of a plugin that runs.

    Attributes:
        text: whose it is and what it is doing, to follow "while", e.g. ``backend volt was opening the original``.
        release: the distribution that brings it, with its version.
        first: whether nothing of the kind has come back yet.
        limit: after which it is ended.
    """

    text: str
    release: str = ""
    first: bool = False
    limit: Limit = NO_LIMIT


@dataclass
class _Told:
    """Where a worker says it, and what it said last of plugins."""

    tell: Callable[[Mapping[str, Any]], None] | None = None
    call: PluginCall | None = None

    def say(self, message: Mapping[str, Any]) -> None:
        if self.tell is not None:
            self.tell(message)


_told = _Told()


def tell_by(tell: Callable[[Mapping[str, Any]], None]) -> None:
    """Where to say it; outside a worker nobody is told."""
    _told.tell = tell


def is_worker() -> bool:
    """Whether this process is one that does a job."""
    return _told.tell is not None


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Work on something that can be named: ``sample 3 of calib.npz``. After an exception its name still stands."""
    _told.say({"doing": what})
    yield
    _told.say({"doing": ""})


def current_call() -> PluginCall | None:
    """What was said last of plugins' code."""
    return _told.call


def say_call(call: PluginCall | None) -> None:
    """Say that a plugin's code runs from now on, or none; nothing is sent where that was said already."""
    if call is not _told.call:
        _told.call = call
        _told.say({"calling": call and asdict(call)})


@contextmanager
def calling(call: PluginCall) -> Iterator[None]:
    """Run a plugin's code, within its own limit where it has one. After an exception its name still stands."""
    before = current_call()
    say_call(call)
    with within(call.limit.seconds):
        yield
    say_call(before)


@contextmanager
def within(limit_s: float | None) -> Iterator[None]:
    """End this process where what is inside takes longer: by a signal, whatever library it hangs in.

    Nothing is ended where there is no such signal, as on Windows, in a process that is no worker, and on a thread
    beside the main one: there is one such clock in a process.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if limit_s is None or not (is_worker() and is_main and hasattr(signal, "setitimer")):
        yield
        return
    left_s, _ = signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left_s)
