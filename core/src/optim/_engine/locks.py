"""Locks between the processes of one user on one machine: who fills a folder, who uses the clock.

A lock says who holds it, so that whoever waits can say so. Those who wait are served in the order in which they came:
a run that races again and again lets others in between. A process that dies lets go of everything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from optim.errors import OptimError
from optim.folders import lock_folder

POLL_S = 0.05
_STALE_S = 86400.0
"""A lock file that nobody touched for a day is removed: there is one for each folder that was ever filled."""


class LockBusyError(Exception):
    """Somebody else held a lock for longer than one would wait.

    Attributes:
        holder: who, in words.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(f"{holder} holds it")
        self.holder = holder


def acquire(name: str, what: str, *, wait_s: float, on_wait: Callable[[str], None] | None = None) -> FileLock:
    """Hold a lock until it is released, or the process ends.

    Args:
        name: of the lock; letters, digits and dashes.
        what: this process is doing, for those who wait.
        wait_s: how long to wait for others; 0: not at all.
        on_wait: told once who is waited for, in words.

    Raises:
        LockBusyError: others held it all the time.
        OptimError[lock-folder-unusable]: locks cannot be kept on this machine.
    """
    folder = lock_folder()
    path = folder / f"{name}.lock"
    deadline, told = time.monotonic() + wait_s, False
    try:
        _sweep(folder)
        with _ticket(folder, name) as is_next:
            path.touch()  # fresh: nobody sweeps it away now
            lock = FileLock(path, thread_local=False)
            while True:
                if is_next():
                    with suppress(Timeout):
                        lock.acquire(timeout=0)
                        held_by = f"process {os.getpid()} ({what})"
                        path.with_suffix(".holder").write_text(held_by, "utf-8", errors="backslashreplace")
                        return lock
                if on_wait and not told:
                    on_wait(_holder(path))
                    told = True
                if time.monotonic() >= deadline:
                    raise LockBusyError(_holder(path))
                time.sleep(POLL_S)
    except OSError as error:
        raise OptimError.usage(
            "lock-folder-unusable",
            f"no lock can be kept in {folder}",
            f"{error.strerror or error}",
            "set XDG_RUNTIME_DIR to a folder that you may write to",
        ) from error


def held_for_s(name: str) -> float | None:
    """For how many seconds somebody has held a lock; None where nobody does."""
    path = lock_folder() / f"{name}.lock"
    if not path.exists():
        return None
    try:
        with FileLock(path, timeout=0):
            return None
    except Timeout:
        with suppress(FileNotFoundError):  # it is about to be written
            return max(0.0, time.time() - path.with_suffix(".holder").stat().st_mtime)
        return 0.0


@contextmanager
def _ticket(folder: Path, name: str) -> Iterator[Callable[[], bool]]:
    """A place in the queue; tells whether it is the first of those whose processes live."""
    mine = folder / f"{name}.{time.time_ns():020d}.{os.getpid()}.ticket"
    mine.touch()

    def is_next() -> bool:
        for ticket in sorted(folder.glob(f"{name}.*.ticket")):
            if ticket == mine:
                return True
            if _lives(ticket):
                return False
            ticket.unlink(missing_ok=True)
        return True  # somebody removed it: nobody is before it either

    try:
        yield is_next
    finally:
        mine.unlink(missing_ok=True)


def _lives(ticket: Path) -> bool:
    import psutil

    *_, at, pid, _ = ticket.name.split(".")
    try:
        return bool(psutil.Process(int(pid)).create_time() <= int(at) / 1e9 + 1)  # ids are used again
    except (ValueError, psutil.Error):
        return False


def _holder(path: Path) -> str:
    said = ""
    with suppress(OSError):  # it is about to be written
        said = path.with_suffix(".holder").read_text("utf-8", errors="replace")
    return said if said.startswith("process ") else "another process"


def _sweep(folder: Path) -> None:
    """Remove what nobody has used for long and nobody holds."""
    for path in folder.glob("*.lock"):
        with suppress(OSError, Timeout):
            if time.time() - path.stat().st_mtime > _STALE_S:
                with FileLock(path, timeout=0):
                    path.with_suffix(".holder").unlink(missing_ok=True)
                    path.unlink()
