"""The folder of a run's isolated workers; the process at the top of a run owns it by a lock.

The lock is gone with the process, however that ends, and the workers end then. Subprocesses are told the folder by
``OPTIM_ISOLATION_FOLDER``, so that a worker outlives the candidate that started it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

FOLDER_VARIABLE = "OPTIM_ISOLATION_FOLDER"


def workers_folder() -> Path:
    """The folder of this run: told by the parent, or made and owned by this process."""
    if told := os.environ.get(FOLDER_VARIABLE):
        return Path(told)
    return _own_folder(os.getpid())


def owned_workers() -> dict[str, str]:
    """What a subprocess is told; nothing where the system has no Unix sockets."""
    return {FOLDER_VARIABLE: str(workers_folder())} if os.name == "posix" else {}


@cache
def _own_folder(process: int) -> Path:
    import fcntl

    del process
    folder = Path(tempfile.mkdtemp(prefix="optim-isolated-"))
    lock = os.open(folder / "owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
