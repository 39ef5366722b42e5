"""What a worker of a cluster is, so that it can be held against the others."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Worker:
    """A process that runs what a batch is made of.

    Attributes:
        host: name of its machine.
        version: of optim and Python, for people.
        code: digest of optim and its plugins.
        machine: its kind; figures of different kinds cannot be compared.
        targets: that are there.
        sees_folder: whether it can write to the batch's folder.
    """

    host: str
    version: str
    code: str
    machine: str
    targets: tuple[str, ...]
    sees_folder: bool


def describe(folder: str) -> Worker:
    """This process as a worker.

    Args:
        folder: of the batch.
    """
    from optim._engine.batch.runs import WORK_FOLDER, code_key
    from optim._engine.plugins.registry import load_registry
    from optim._engine.search.keys import machine_kind

    version = f"optim {importlib.metadata.version('optim-core')} on Python {platform.python_version()}"
    registry = load_registry()
    return Worker(
        platform.node(),
        version,
        code_key(),
        machine_kind(),
        tuple(registry.targets()),
        os.access(Path(folder) / WORK_FOLDER, os.W_OK),
    )
