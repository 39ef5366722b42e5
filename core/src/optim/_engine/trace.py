"""A run as one file: every action with its key, its answer and its seconds, so that a replay can decide by it again.

Lines of JSON, compressed with gzip: the first names the version and what was asked, the last what came of it, each
between them one action. No model is in it and no path of the user's machine; reading it executes nothing.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

from optim._engine.store import cache_key
from optim.jobs.process import WorkerFailed
from optim.jobs.wire import to_wire

VERSION = 3

STORE = "<store>"
"""What a trace has in place of the folder of the cache."""

_CLOCKED = frozenset(
    {"seconds", "within_s", "timeout_s", "effort", "bounds", "original_s", "limit_s", "costs", "opens_beside"}
)
"""What a request says of time, of free memory, and of what was learned before: the same work may have more or less."""


class Seconds(Protocol):
    """The clock of a run."""

    @property
    def spent(self) -> float:
        """Seconds since it began."""

    @property
    def left(self) -> float:
        """Seconds that are left of it."""


@dataclass
class Action:
    """One action while it goes on."""

    answer: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)
    processor_s: float = 0.0


class Recorder:
    """Writes the trace of a run. The file appears when the run has ended: a run that is interrupted leaves none.

    Args:
        path: of the file.
        header: what was asked, and where.
        names: folders of this machine, each with what stands in its place.
    """

    def __init__(self, path: Path, header: Mapping[str, Any], names: Mapping[str, str]) -> None:
        self._time: Seconds | None = None
        known = {folder: "<python>" for folder in (*sys.path, sys.prefix) if folder and Path(folder).is_absolute()}
        known |= {tempfile.gettempdir(): "<tmp>", str(Path.home()): "~", **names}
        known = {folder: name for folder, name in known.items() if Path(folder).name}  # not the root: names of nodes
        self._names = dict(sorted(known.items(), key=lambda item: -len(item[0])))  # what lies deeper goes first
        self._guard = threading.Lock()
        self._count = 0
        self._path, self._part, self._is_whole = path, path.with_name(f"{path.name}.part"), False
        self._file = gzip.GzipFile(self._part, "wb", compresslevel=6)
        self._write({"optim_trace": VERSION, **header})

    def goes_by(self, time: Seconds) -> None:
        """Have a clock; of several targets each has its own, and the first is that of the run."""
        self._time = self._time or time

    @contextmanager
    def action(self, name: str, request: object) -> Iterator[Action]:
        """Notes what is done inside, whether it succeeds or fails.

        Args:
            name: of the job's module, or of what is read; its last part is kept, for modules move.
            request: what it is told.
        """
        assert self._time is not None
        began, left, action, failed = self._time.spent, self._time.left, Action(), None
        try:
            yield action
        except WorkerFailed as failure:
            failed = failure
            raise
        finally:
            asked = to_wire(request)
            line = {
                "name": short_name(name),
                "key": key_of(name, self._without_paths(asked)),
                "at": round(began, 6),
                "left": round(left, 6),
                "seconds": round(self._time.spent - began, 6),
                "processor_s": round(action.processor_s, 3),
                "request": asked,
                "events": action.events,
            }
            if failed is None:
                line["answer"] = to_wire(action.answer)
            else:
                error = asdict(failed.error) if failed.error else None
                line["failed"] = {"reason": failed.reason, "kind": failed.kind, "error": error, "doing": failed.doing}
            self._write(line)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Notes what came of the run; without it a trace counts as cut off."""
        self._write({"end": to_wire(result), "actions": self._count - 1})
        self._is_whole = True

    def _without_paths(self, value: Any) -> Any:
        text = json.dumps(value)
        for folder, name in self._names.items():
            text = text.replace(json.dumps(folder)[1:-1], name)
        return json.loads(text)

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(self._without_paths(to_wire(line)), separators=(",", ":"))
        with self._guard:
            self._count += 1
            self._file.write(text.encode() + b"\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._file.close()
            if self._is_whole:
                self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)


def trace_of(path: str, component: str) -> str:
    """The file of one component, beside the one that was asked for; empty where none was."""
    file = Path(path)
    return str(file.with_name(f"{file.stem}-{component}{file.suffix}")) if path else ""


def short_name(name: str) -> str:
    """What a trace calls a job: its module without the packages around it."""
    return name.rpartition(".")[2]


def key_of(name: str, request: Any) -> str:
    """What an answer is found by: the work, whatever time it has and wherever its files and its module lie."""
    return cache_key("trace", [short_name(name), _timeless(request)])[:16]


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(one) for key, one in value.items() if key not in _CLOCKED}
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    if isinstance(value, str) and value.startswith(STORE):
        shelf, _, name = value.removeprefix(f"{STORE}/").partition("/")
        return name if shelf == "models" else shelf  # other folders are named at random
    return value
