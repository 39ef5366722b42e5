"""What a worker of a cluster is, so that it can be held against the others."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from optim.engine.fleet import core_digest, free_memory_bytes, source_digest
from optim.jobs import from_wire, to_wire

_RUNTIMES = ("onnx", "onnxruntime", "onnxruntime-gpu", "onnxruntime-qnn", "openvino", "numpy")
"""What figures and results depend on beside optim and its plugins."""

CLOCK = "optim-clock-"
"""Begins the names of dask's resources that stand for a machine's clock; the rest is a target's name."""


_BETWEEN = ", "


@dataclass(frozen=True, slots=True)
class WorkerDevice:
    """A target as a worker sees it.

    Attributes:
        reason: why it cannot be used there; empty where it can.
        hardware: the device that is there.
        free_bytes: of the device's memory; None where nobody can tell.
    """

    reason: str = ""
    hardware: str = ""
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that does what a run or a batch is made of.

    Attributes:
        host: name of its machine.
        version: of optim and Python, for people.
        core: digest of optim and of this package.
        plugins: what stands for the code of each plugin, by name.
        libraries: versions of those that plugins can do without, by name.
        machine: what machines must have in common for their figures to be compared.
        machine_key: of that very machine, as runs there use it.
        runtimes: versions of libraries that results depend on.
        targets: all that there are, by name, and those that were asked for, with settings.
        sees_folder: whether it can write to the batch's folder.
        memory_bytes: that are free.
        report: what a report says of its machine.
    """

    host: str
    version: str
    core: str
    plugins: Mapping[str, str]
    machine: str
    machine_key: str
    runtimes: Mapping[str, str]
    targets: Mapping[str, WorkerDevice]
    libraries: Mapping[str, str] = field(default_factory=dict)
    sees_folder: bool = True
    memory_bytes: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)

    @property
    def usable(self) -> list[str]:
        """Names of the targets that can be used there."""
        return [name for name, device in self.targets.items() if not device.reason]

    @property
    def kind(self) -> str:
        """What figures and results depend on, in words."""
        devices = [device.hardware for device in self.targets.values() if device.hardware]
        versions = [f"{name} {version}" for name, version in {**self.runtimes, **self.libraries}.items()]
        return _BETWEEN.join([self.machine, *versions, *devices])


def what_differs(kind: str, other: str) -> str:
    """What one kind of machine has in place of what another has."""
    ours, theirs = kind.split(_BETWEEN), other.split(_BETWEEN)
    own, instead = ([part for part in one if part not in two] for one, two in ((ours, theirs), (theirs, ours)))
    return f"{_BETWEEN.join(own) or 'nothing'} in place of {_BETWEEN.join(instead) or 'nothing'}"


def describe(folder: str = "", targets: Sequence[str] = ()) -> str:
    """This process as a :class:`Worker`, in JSON.

    Args:
        folder: of a batch; empty: none.
        targets: to look at, as a user writes them.
    """
    from optim.engine.fleet import carried_key, libraries_of, load_registry, machine_key, machine_kind, this_machine

    registry = load_registry()
    infos = [plugin.info for plugin in registry.plugins]
    libraries = {name: version for info in infos for name, version in libraries_of(info.package).items()}
    found = {name: WorkerDevice(registry.unavailable(registry.target(name)) or "") for name in registry.targets()}
    for name in targets:
        known = name.partition(":")[0]
        if known in found:
            target = registry.target(name)
            free = target.free_memory() if target.free_memory else None
            found[name] = WorkerDevice(registry.unavailable(target) or "", target.plain.hardware, free)
    worker = Worker(
        host=platform.node(),
        version=f"optim {importlib.metadata.version('optim-core')} on Python {platform.python_version()}",
        core=code_digest(),
        plugins={info.name: carried_key(info) for info in infos},
        machine=machine_kind(),
        machine_key=machine_key(),
        runtimes=_versions(),
        targets=found,
        libraries=dict(sorted(libraries.items())),
        sees_folder=not folder or os.access(Path(folder), os.W_OK),
        memory_bytes=free_memory_bytes(),
        report=to_wire(this_machine()),
    )
    return json.dumps(to_wire(worker))


@cache
def code_digest() -> str:
    """What stands for optim and this package on every machine: both ends of a cluster must have the same."""
    return hashlib.sha256(f"{core_digest()} {source_digest('optim_fleet')}".encode()).hexdigest()


async def describe_there(folder: str, targets: Sequence[str]) -> str:
    """The same on a worker, whose event loop goes on meanwhile: the first time all plugins are imported."""
    return await asyncio.to_thread(describe, folder, targets)


def read(text: str) -> Worker:
    """What :func:`describe` wrote."""
    return from_wire(Worker, json.loads(text))


def _versions() -> dict[str, str]:
    found = {}
    for name in _RUNTIMES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
