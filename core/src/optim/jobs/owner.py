"""The folder of a run's isolated workers; the process at the top of a run owns it by a lock.

The lock is gone with the run, or with its process however that ends, and the workers end then. Subprocesses are told
the folder by ``OPTIM_ISOLATION_FOLDER``, so that a worker outlives the candidate that started it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock

FOLDER_VARIABLE = "OPTIM_ISOLATION_FOLDER"


class _Owned:
    """The folder of this process, made when first asked for; runs that overlap share it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._runs = 0
        self._held: tuple[int, Path, FileLock] | None = None

    def folder(self) -> Path:
        with self._guard:
            if self._held is None or self._held[0] != os.getpid():  # a fork's is its parent's
                folder = Path(tempfile.mkdtemp(prefix="optim-isolated-"))
                lock = FileLock(folder / "owner", thread_local=False)
                lock.acquire()
                self._held = os.getpid(), folder, lock
            return self._held[1]

    def begin(self) -> None:
        with self._guard:
            self._runs += 1

    def end(self) -> None:
        with self._guard:
            self._runs -= 1
            if self._runs == 0:
                self._release()

    def at_exit(self) -> None:
        with self._guard:
            self._release()

    def _release(self) -> None:
        if self._held is not None and self._held[0] == os.getpid():
            _, folder, lock = self._held
            self._held = None
            lock.release()
            shutil.rmtree(folder, ignore_errors=True)


_owned = _Owned()
atexit.register(_owned.at_exit)


def workers_folder() -> Path:
    """The folder of this run: told by the parent, or made and owned by this process."""
    if told := os.environ.get(FOLDER_VARIABLE):
        return Path(told)
    return _owned.folder()


@contextmanager
def ending_workers() -> Iterator[None]:
    """Isolated workers that are started within end with it; without it they end with the process."""
    _owned.begin()
    try:
        yield
    finally:
        _owned.end()
