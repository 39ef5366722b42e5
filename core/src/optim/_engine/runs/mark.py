"""``run.json``: marks a folder as ours, and says where its run stands."""

from __future__ import annotations

import importlib.metadata
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from optim._engine.json_file import read_json

MARK_FILE = "run.json"
TEMPORARY_PREFIX = ".optim-"
"""Names that begin so are ours, and may be left behind by a run that was killed."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The finished run whose files lie in the folder.

    Attributes:
        key: of everything the user asked for.
        finished: when, ISO 8601 in UTC.
        files: names that the run wrote; others in the folder are the user's own.
    """

    key: str
    finished: str
    files: tuple[str, ...]

    def __post_init__(self) -> None:
        """Files lie in the folder itself: a mark that names others is not one that optim wrote."""
        if wrong := [name for name in self.files if not _is_bare(name)]:
            raise ValueError(f"{wrong[0]!r} is not the name of a file in the folder")


@dataclass(frozen=True, slots=True)
class RunMark:
    """What ``run.json`` holds.

    Attributes:
        optim: version that wrote it.
        status: of the newest run. A run that was killed stays ``running``.
        started: when, ISO 8601 in UTC.
        key: of everything the user asked for.
        pid: process of the newest run.
        holds: what lies in the folder; None before the first run has finished.
    """

    optim: str
    status: Literal["running", "finished"]
    started: str
    key: str
    pid: int
    holds: Finished | None = None


def new_mark(key: str, holds: Finished | None) -> RunMark:
    """The mark of a run that begins now."""
    return RunMark(importlib.metadata.version("optim-core"), "running", utc_now(), key, os.getpid(), holds)


def read_mark(folder: Path) -> RunMark | None:
    """The mark of a folder; None where it is not ours."""
    from optim.jobs.wire import from_wire

    try:
        return from_wire(RunMark, read_json(folder / MARK_FILE))
    except (OSError, ValueError):
        return None


def write_mark(folder: Path, mark: RunMark) -> None:
    """Replace the mark of a folder in one step."""
    from optim.jobs.wire import to_wire

    temporary = folder / f"{TEMPORARY_PREFIX}mark"
    try:
        temporary.write_text(json.dumps(to_wire(mark), indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, folder / MARK_FILE)
    finally:
        temporary.unlink(missing_ok=True)


def _is_bare(name: str) -> bool:
    """Returns whether a name is that of an entry of a folder, on every system."""
    return name not in ("", ".", "..") and not any(character in name for character in "/\\:\0")


def utc_now() -> str:
    """ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
