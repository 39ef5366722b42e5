"""A worker that was started as a program of its own: on every system, and for what must share nothing with others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import IO, Any


class Spawned:
    """``python -m optim.jobs.worker`` in its own process group.

    Args:
        handle: the worker's end of the connection, inherited.
        output: what it writes to stdout and stderr goes here.
        environment: of the worker, whole.
    """

    def __init__(self, handle: int, output: IO[bytes], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "optim.jobs.worker", str(handle)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            **_handing_down(handle),
        )
        threading.Thread(target=self._end_group_with_leader, daemon=True).start()

    @property
    def process(self) -> int:
        """Its id."""
        return self._process.pid

    def kill(self) -> None:
        """End the whole process group at once; returns when it has ended."""
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """The exit status when it has ended, below zero for a signal."""
        return self._process.wait()

    def _end_group_with_leader(self) -> None:
        """What the worker started ends with it: a fork that holds its pipe open would hide its end."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(OSError):  # it has been collected already
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)  # its id stays taken until then
                os.killpg(self._process.pid, signal.SIGKILL)


def _handing_down(handle: int) -> dict[str, Any]:
    """What ``Popen`` is told so that the worker gets the end of a pipe, and a group of its own."""
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)
        return {"startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]})}
    return {"pass_fds": (handle,), "start_new_session": True}
