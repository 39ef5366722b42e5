"""``index.json``: what came of a batch, a row for each run; what a batch that goes on takes up from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optim.engine.fleet import Report, exit_status, read_json, report_folder, report_page
from optim.errors import OptimError
from optim_fleet.batch.matrix import Entry
from optim_fleet.batch.program import ProgramEnd

INDEX_FILE = "index.json"
_FINISHED = ("improved", "prepared", "unchanged", "budget-missed")
"""Verdicts that would come again: a crash or a run that was stopped may not."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PointRow(_Part):
    """A model that a run could have delivered."""

    ratio: float | None
    drift: float | None
    size_bytes: int


class IndexRow(_Part):
    """One run, or one component of it, where its source has several."""

    name: str = Field(description="of the folder; with the component after a slash")
    source: str
    target: str
    max_drift: float | None = Field(description="limit of the recipe; null if it has none, or with --lossless")
    status: Literal["improved", "prepared", "unchanged", "budget-missed", "failed", "error"]
    reason: str = Field(description="the verdict in one sentence, or why there is none")
    fix: str = Field(default="", description="next step after an error")
    ratio: float | None = Field(default=None, description="latency of the result divided by that of the original")
    size_ratio: float | None = Field(default=None, description="size of the result divided by that of the original")
    drift: float | None = Field(default=None, description="of the worst output")
    front: tuple[PointRow, ...] = Field(default=(), description="results for --pick, the fastest first")
    report: str = Field(
        default="", description="its report, relative to the folder of the batch; empty if there is none"
    )
    seconds: float = 0.0
    host: str = Field(default="", description="the machine that it ran on")
    exit_status: int = Field(description="exit status of `optim run`")
    command: str = Field(default="", description="command that repeats this run")

    @property
    def delivered(self) -> bool:
        """Whether there is a model."""
        return self.status in ("improved", "prepared", "unchanged")


class Index(_Part):
    """Everything that a batch knows of its runs.

    Attributes:
        keys: by run, what it depends on.
    """

    rows: tuple[IndexRow, ...] = ()
    keys: dict[str, str] = Field(default={}, description="by run: a key of its request and its files")

    def rows_of(self, name: str) -> tuple[IndexRow, ...]:
        """The row of a run, or those of its components."""
        return tuple(row for row in self.rows if row.name.partition("/")[0] == name)

    def finished(self, name: str, key: str, folder: Path) -> tuple[IndexRow, ...]:
        """The rows of a run that need not be run again; empty where it must be."""
        rows = self.rows_of(name)
        whole = all(row.status in _FINISHED and (folder / row.report).is_file() for row in rows)
        return rows if rows and whole and self.keys.get(name) == key else ()


def read_index(folder: Path) -> Index | None:
    """What an earlier batch left in a folder; None where there is none."""
    try:
        return Index.model_validate(read_json(folder / INDEX_FILE))
    except (OSError, ValueError, ValidationError):
        return None


def write_index(index: Index, folder: Path) -> None:
    """Replace the index of a folder in one step."""
    temporary = folder / f".{INDEX_FILE}"
    try:
        temporary.write_text(index.model_dump_json(indent=2) + "\n", encoding="utf-8")
        os.replace(temporary, folder / INDEX_FILE)
    finally:
        temporary.unlink(missing_ok=True)


def rows_of(entry: Entry, done: ProgramEnd, folder: Path, command: str) -> tuple[IndexRow, ...]:
    """What came of a run, by what it printed."""
    try:
        answer = json.loads(done.answer)
        if "error" in answer:
            return (_of_error(entry, answer["error"], done, command),)
        reports = {"": answer} if "status" in answer else answer
        return tuple(
            _of_report(entry, component, Report.model_validate(report), done, folder, command)
            for component, report in reports.items()
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        ended = f"signal {-done.status}" if done.status < 0 else f"exit status {done.status}"
        lost = OptimError("run-lost", f"{entry.name} ended without a report", ended, f"{command} --debug")
        return (error_row(entry, lost, done, command),)


def error_row(entry: Entry, error: OptimError, done: ProgramEnd | None = None, command: str = "") -> IndexRow:
    """A run that has no report."""
    fields = {"what": error.what, "cause": error.cause, "fix": error.fix, "status": int(error.status)}
    return _of_error(entry, fields, done, command)


def _of_error(entry: Entry, error: Mapping[str, Any], done: ProgramEnd | None, command: str) -> IndexRow:
    return IndexRow(
        name=entry.name,
        source=entry.source or str(entry.origin),
        target=entry.target,
        max_drift=_max_drift(entry),
        status="error",
        reason=f"{error['what']}: {error['cause']}",
        fix=error["fix"],
        exit_status=int(error["status"]),
        seconds=done.seconds if done else 0.0,
        host=done.host if done else "",
        command=command,
    )


def _of_report(entry: Entry, component: str, report: Report, done: ProgramEnd, folder: Path, command: str) -> IndexRow:
    own = folder / entry.name / component if component else folder / entry.name
    result = report.result
    page = report_page(report_folder(own, delivered=result is not None))
    return IndexRow(
        name=f"{entry.name}/{component}" if component else entry.name,
        source=entry.source,
        target=report.target,
        max_drift=_max_drift(entry),
        status=report.status,
        reason=report.reason,
        ratio=result.latency_ratio if result else None,
        size_ratio=result.size_bytes / report.original.size_bytes if result and report.original.size_bytes else None,
        drift=result.drift.relative_error if result else None,
        front=tuple(
            PointRow(ratio=point.latency_ratio, drift=point.drift.relative_error, size_bytes=point.size_bytes)
            for point in report.front
        ),
        report=page.relative_to(folder).as_posix(),
        seconds=done.seconds,
        host=done.host,
        exit_status=int(exit_status(report)),
        command=command,
    )


def _max_drift(entry: Entry) -> float | None:
    return entry.recipe.budget.max_drift if entry.recipe else None


def worst_status(rows: Iterable[IndexRow]) -> int:
    """What the batch exits with: the highest status of its runs."""
    return max((row.exit_status for row in rows), default=0)
