"""What travels between a run and a worker: texts of JSON, and nothing that is unpickled.

Paths of the store are written ``optim-store:///models/...``, so that each machine has its own store where it likes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path, PureWindowsPath
from typing import Any

from optim.engine.fleet import PluginCall
from optim.errors import ExitStatus, OptimError
from optim.jobs import WorkerFailed
from optim.workplace import Done, Work

STORE = "optim-store:///"

_DIGEST = re.compile(r"[0-9a-f]{64}")

_BEFORE_A_PATH = r"(?<![^\s'\"`(\[{<=:,;|])"
"""In a sentence a path begins behind one of these, or with the text."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the store.

    Attributes:
        name: below the store's folder, with slashes.
        size_bytes: of it.
        digest: sha256, hex.

    Raises:
        ValueError: the name leads out of the store, or the digest is none.
    """

    name: str
    size_bytes: int
    digest: str

    def __post_init__(self) -> None:
        if not is_name(self.name) or not _DIGEST.fullmatch(self.digest):
            raise ValueError(f"{self.name} is not a file of the store")


@dataclass(frozen=True, slots=True)
class Order:
    """A job for a worker.

    Attributes:
        work: the job; paths begin with :data:`STORE`.
        files: that it needs.
        makes: folders that are not there yet, and that it fills.
        run: whose it is.
        code: digest of the run's optim.
        marker: a file of the run's store: a worker that sees it has the same store.
        url: where files are exchanged; empty: the engine carries them.
    """

    work: Work
    files: tuple[File, ...]
    makes: tuple[str, ...]
    run: str
    code: str
    marker: str
    url: str = ""


class WorkState(StrEnum):
    """What became of an order."""

    DONE = "done"
    FAILED = "failed"
    """The job ran and did not come back: an answer as good as any."""
    LACKS_FILES = "lacks-files"
    UNFIT = "unfit"
    """This worker cannot do it, another may."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a worker says of an order.

    Attributes:
        state: what became of it.
        worker: its address.
        host: its machine's name.
        lacks: names of files that it has not.
        reason: why it is unfit.
        error: fields of the error behind that, where there is one.
        done: the answer; paths begin with :data:`STORE`.
        failure: of the job.
        made: files that the job made.
        worked_s: that it took, waiting not counted.
    """

    state: WorkState
    worker: str
    host: str
    lacks: tuple[str, ...] = ()
    reason: str = ""
    error: dict[str, Any] | None = None
    done: Done | None = None
    failure: Failure | None = None
    made: tuple[File, ...] = ()
    worked_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A :class:`WorkerFailed` as JSON."""

    reason: str
    kind: str
    details: str = ""
    error: dict[str, Any] | None = None
    doing: str = ""
    printed: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    call: PluginCall | None = None

    @classmethod
    def of(cls, failed: WorkerFailed, events: list[dict[str, Any]]) -> Failure:
        """What is told of it."""
        error = error_fields(failed.error) if failed.error else None
        said = failed.doing, failed.printed, events, failed.call
        return cls(failed.reason, failed.kind, failed.details, error, *said)

    def raised(self) -> WorkerFailed:
        """The exception again."""
        error = error_of(self.error) if self.error else None
        failed = WorkerFailed(self.reason, self.kind, self.details, error, self.doing, self.printed, self.call)
        failed.events = self.events
        return failed


def error_fields(error: OptimError) -> dict[str, Any]:
    """An error as JSON values."""
    return {**asdict(error), "status": int(error.status)}


def error_of(fields: dict[str, Any]) -> OptimError:
    """The error again."""
    return OptimError(**{**fields, "status": ExitStatus(fields["status"])})


def outgoing(value: Any, root: Path) -> Any:
    """JSON values whose paths below ``root`` say :data:`STORE`; a path that only contains ``root`` stays."""
    begin = f"{root}{os.sep}"
    at_start = re.compile(rf"{_BEFORE_A_PATH}{re.escape(begin)}")

    def changed(text: str) -> str:
        if os.sep != "/" and text.startswith(begin):
            return STORE + text.removeprefix(begin).replace(os.sep, "/")
        return at_start.sub(STORE, text)

    return _mapped(value, changed)


def incoming(value: Any, root: Path) -> Any:
    """The same with paths below ``root``."""
    begin = f"{root}{os.sep}"

    def changed(text: str) -> str:
        if os.sep != "/" and text.startswith(STORE):
            return begin + text.removeprefix(STORE).replace("/", os.sep)
        return text.replace(STORE, begin)

    return _mapped(value, changed)


def is_name(text: str) -> bool:
    """Whether a text names what lies on a shelf of the store: it may come from a stranger's model or recipe."""
    path = PureWindowsPath(text)  # which takes slashes of both kinds, and knows drives
    return not path.anchor and ".." not in path.parts and len(path.parts) > 1


def store_names(value: Any) -> Iterator[str]:
    """Names of the files and folders of the store that JSON values with :data:`STORE` speak of; shelves are none."""
    for text in _texts(value):
        name = text.removeprefix(STORE)
        if name != text and is_name(name):
            yield name


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    return value


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _texts(inner)
