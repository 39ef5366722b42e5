"""A device that takes one session at a time: processes take turns at it, and in one process sessions make way.

Whoever needs the device again gets it: a session that made way is opened anew when it is next run.
"""

from __future__ import annotations

import re
from typing import Protocol

from filelock import FileLock

from optim._engine.locks import LockBusyError, acquire
from optim.errors import ExitStatus, OptimError

MOST_WAIT_S = 900.0
"""For one turn. A job that waits has its own limit, which ends it long before; this ends what has none."""

_ON_DISK = re.compile(r"[^A-Za-z0-9]+")


class Parked(Protocol):
    """Who can hold a device."""

    def make_way(self) -> None:
        """Close what is open on the device."""


class Device:
    """One exclusive device, as this process sees it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock: FileLock | None = None
        self._holder: Parked | None = None

    def take(self, session: Parked) -> None:
        """Let ``session`` have the device: another one of this process makes way, other processes are waited for.

        Raises:
            OptimError[device-in-use]: others held it for too long.
        """
        if self._holder is session:
            return
        if self._holder is not None:
            self._holder.make_way()
            self._holder = None
        if self._lock is None:
            try:
                name = _ON_DISK.sub("-", self._name).strip("-")
                self._lock = acquire(f"device-{name}", f"a model open on {self._name}", wait_s=MOST_WAIT_S)
            except LockBusyError as error:
                raise OptimError(
                    "device-in-use",
                    f"device {self._name} runs one model at a time, and another process uses it",
                    f"{error.holder} has used it for {MOST_WAIT_S:.0f} s",
                    "run the same command when the other has ended: it continues from here",
                    status=ExitStatus.TARGET_UNAVAILABLE,
                ) from error
        self._holder = session

    def leave(self, session: Parked) -> None:
        """Let others have the device, where ``session`` has it."""
        if self._holder is not session:
            return
        self._holder = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None


_devices: dict[str, Device] = {}


def device(name: str) -> Device:
    """The device of that name: one object in a process."""
    return _devices.setdefault(name, Device(name))
