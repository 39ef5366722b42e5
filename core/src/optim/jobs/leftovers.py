"""Processes that work in a subprocess leaves behind: ended, and named, so that they outlive nothing and nobody wonders.

A worker's process group ends with it. What a plugin starts in a session of its own, or as a daemon, is not in that
group: it is found as a descendant while the worker lives (on Linux orphans come to the worker), and by a mark in its
environment when the worker is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from optim.jobs.doing import is_worker

if TYPE_CHECKING:
    import psutil

MARK_VARIABLE = "OPTIM_WORKER"
"""Names the worker that started a process, in the environment of the process."""

_PARENT_DEATH_SIGNAL, _CHILD_SUBREAPER = 1, 36
"""``PR_SET_PDEATHSIG`` and ``PR_SET_CHILD_SUBREAPER`` of Linux."""

_MEANT_TO_STAY = (str(Path("isolation", "server.py")), "multiprocessing.resource_tracker", "multiprocessing.fork")
"""In the command lines of what is meant to outlive one piece of work: workers of isolated plugins, which the whole run
shares, and the helpers of Python's multiprocessing, which end by themselves."""

_LONGEST_NAME = 100

_ENDING_S = 1.0
"""For what was killed to be gone: the system takes thousandths, more where it has much memory to give back."""

_LOOK_S = 0.005


def end_group(process: int) -> None:
    """End the process group that a process leads, where there are groups and this one still has somebody."""
    if os.name == "posix":
        with contextlib.suppress(OSError):
            os.killpg(process, signal.SIGKILL)


@contextmanager
def ending_leftovers() -> Iterator[list[str]]:
    """In a worker: what is started within and still runs at the end is ended; the list has the names then."""
    named: list[str] = []
    if not is_worker():
        yield named
        return
    _prctl(_CHILD_SUBREAPER, 1)  # processes whose parent ends become children of this one, on Linux
    try:
        yield named
    finally:
        named += end_descendants(os.getpid())


def end_descendants(process: int) -> list[str]:
    """End what a living process has started, and what that has started; their names."""
    if process == os.getpid() and not _may_have_children():
        return []
    import psutil

    with contextlib.suppress(psutil.Error):
        return _end(_running(psutil.Process(process)))
    return []


def end_marked(mark: str) -> list[str]:
    """End every process with a mark in its environment; their names."""
    import psutil

    found = []
    for number in psutil.pids():  # process_iter hands out what it saw before: of a number used again it ends nothing
        with contextlib.suppress(psutil.Error, OSError):
            process = psutil.Process(number)
            is_marked = process.environ().get(MARK_VARIABLE) == mark
            if is_marked and not any(map(_is_meant_to_stay, (process, *process.parents()))):
                found.append(process)
    return _end(found)


def _may_have_children() -> bool:
    """Whether this process has any, or the system does not tell at once; a list of all processes takes 2 ms."""
    if hasattr(os, "waitid"):
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
    return True


def _running(parent: psutil.Process) -> Iterator[psutil.Process]:
    import psutil

    for child in parent.children():
        with contextlib.suppress(psutil.Error):
            if child.status() != psutil.STATUS_ZOMBIE and not _is_meant_to_stay(child):
                yield child
                yield from _running(child)


def _end(processes: Iterable[psutil.Process]) -> list[str]:
    import psutil

    killed: dict[psutil.Process, str] = {}
    for process in list(processes):
        with contextlib.suppress(psutil.Error):
            name = " ".join(process.cmdline())[:_LONGEST_NAME] or process.name()
            process.kill()
            killed[process] = name
    deadline = time.monotonic() + _ENDING_S
    while any(map(_is_running, killed)) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return list(killed.values())


def _is_running(process: psutil.Process) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _is_meant_to_stay(process: psutil.Process) -> bool:
    return any(part in word for word in process.cmdline() for part in _MEANT_TO_STAY)


def end_with_parent() -> None:
    """On Linux have this process ended when its parent ends."""
    _prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
