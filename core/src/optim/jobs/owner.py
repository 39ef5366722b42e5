"""The folder of a run's isolated workers; the process at the top of a run owns it by a lock.

The lock is gone with the run, or with its process however that ends, and the workers end then. Subprocesses are told
the folder by ``OPTIM_ISOLATION_FOLDER``, so that a worker outlives the candidate that started it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

FOLDER_VARIABLE = "OPTIM_ISOLATION_FOLDER"


_PREFIX = "optim-isolated-"
_YOUNG_S = 60.0
"""A folder this young may be one whose owner has not locked it yet."""


class _Owned:
    """The folder of this process, made when first asked for; runs that overlap share it."""

    def __init__(self) -> None:
        self._guard = threading.RLock()
        self._runs = 0
        self._held: tuple[int, Path, FileLock] | None = None

    def folder(self) -> Path:
        with self._guard:
            if self._held is None or self._held[0] != os.getpid():  # a fork's is its parent's
                _sweep()
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
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
                self.release()

    def release(self) -> None:
        with self._guard:
            if self._held is not None and self._held[0] == os.getpid():
                _, folder, lock = self._held
                self._held = None
                lock.release()
                shutil.rmtree(folder, ignore_errors=True)


_owned = _Owned()
atexit.register(_owned.release)


def _sweep() -> None:
    """Remove the folders of this user's processes that were killed: nobody holds their locks any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, Timeout):
            status = folder.lstat()
            mine = not hasattr(os, "getuid") or status.st_uid == os.getuid()
            is_old = time.time() - status.st_mtime > _YOUNG_S
            if mine and is_old and stat.S_ISDIR(status.st_mode):
                with FileLock(folder / "owner", timeout=0):
                    pass
                shutil.rmtree(folder)  # no file of it is open: Windows would keep that one


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
