"""The run folder: claimed before a run, filled in one step at its end, so that nobody ever sees half of two runs.

A run that is killed, that finds the disk full, or that delivers no model, leaves an earlier finished result in the
folder as it was.

The new folder lies beside the old one as ``.NAME.optim-new``. The old one is renamed to ``.NAME.optim-old``, the new
one takes its name, and files that the user had put there move over. A process killed between these steps leaves
what :func:`recover` puts right. The caller holds a lock on the folder.

Renaming does not work for a mount point, below a folder that may not be written, or where a shell stands in the
folder. Files are then replaced one by one, the mark last.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeVar

from filelock import FileLock

from optim._engine.json_file import read_json
from optim._engine.locks import LockBusyError, acquire
from optim._engine.runs.session_file import MODEL_FILE
from optim.errors import OptimError, is_disk_full, some_of

T = TypeVar("T")

MARK_FILE = "run.json"
TEMPORARY_PREFIX = ".optim-"
"""Names that begin so are ours, and may be left behind by a run that was killed."""

ASIDE_FOLDER = "not-delivered"
"""Beside a model that an earlier run delivered: the report of a run that delivered none."""


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
        for name in self.files:
            if name in ("", ".", "..") or set(name) & set("/\\:\0"):  # on any system
                raise ValueError(f"{name!r} is not the name of a file in the folder")


@dataclass(frozen=True, slots=True)
class RunMark:
    """Content of ``run.json``.

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


def read_mark(folder: Path) -> RunMark | None:
    """The mark of a folder, ``run.json``; None where the folder is not ours."""
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


class RunFolder:
    """A claimed run folder, until its lock is released; as a context manager it gives an unpublished claim back.

    Attributes:
        earlier: the finished run whose files lie in it, if there is one.
    """

    def __init__(self, path: Path, key: str, lock: FileLock, *, created: bool) -> None:
        self.path, self._lock, self._created = path, lock, created
        self._before = read_mark(path)
        self.earlier = self._before.holds if self._before is not None else None
        version = importlib.metadata.version("optim-core")
        self._mark = RunMark(version, "running", _utc_now(), key, os.getpid(), self.earlier)

    @classmethod
    def claim(cls, path: Path, key: str = "") -> RunFolder:
        """Mark a folder (absent, empty, or of an earlier run) as that of a run under way; touch nothing else in it.

        Raises:
            OptimError[not-our-folder]: it holds something, and not an earlier run.
            OptimError[not-a-folder]: a file is in the way.
            OptimError[not-writable]: it cannot be made or written.
            OptimError[disk-full]: there is no room even for the mark.
            OptimError[folder-in-use]: another run is filling it.
        """
        path = path.expanduser().absolute().resolve()
        lock = _locked(path)
        try:
            with _disk_errors(path, claiming=True):
                recover(path)
                _require_ours(path)
                created = not path.is_dir()
                path.mkdir(parents=True, exist_ok=True)
                claimed = cls(path, key, lock, created=created)
                try:
                    write_mark(path, claimed._mark)
                except OSError:
                    if created:
                        path.rmdir()
                    raise
        except BaseException:
            lock.release()
            raise
        return claimed

    def publish(self, write: Callable[[Path], T]) -> T:
        """Fill the folder, in place of what an earlier run left there.

        Raises:
            OptimError[disk-full]: what was there before is still there.
            OptimError[not-our-folder]: the user has a file of a name that the run writes.
        """
        new = _beside(self.path, "new") if _can_rename(self.path) else self._new_inside
        with self._filled(new) as stage:
            written = write(stage)
            for entry in _users_entries(self.path):
                if (stage / entry.name).exists():
                    raise _not_ours(entry)
            files = tuple(sorted(entry.name for entry in stage.iterdir()))
            mark = replace(self._mark, status="finished", holds=Finished(self._mark.key, _utc_now(), files))
            write_mark(stage, mark)
            _swap_in(stage, self.path)
        return written

    @property
    def _new_inside(self) -> Path:
        return self.path / f"{TEMPORARY_PREFIX}new"

    def publish_aside(self, write: Callable[[Path], T]) -> T:
        """Fill :data:`ASIDE_FOLDER`, and leave what an earlier run delivered as it is.

        Raises:
            OptimError[not-our-folder]: the user has something of that name.
            OptimError[disk-full]: what was there before is still there.
        """
        assert self.earlier is not None
        aside = self.path / ASIDE_FOLDER
        if aside.exists() and ASIDE_FOLDER not in self.earlier.files:
            raise _not_ours(aside)
        with self._filled(self._new_inside) as stage:
            written = write(stage)
            files = tuple(sorted({*self.earlier.files, ASIDE_FOLDER}))
            write_mark(self.path, replace(self._mark, status="finished", holds=replace(self.earlier, files=files)))
            shutil.rmtree(aside, ignore_errors=True)
            os.replace(stage, aside)
        return written

    @contextmanager
    def _filled(self, stage: Path) -> Iterator[Path]:
        """Makes a folder that the caller fills and moves to its place, and ends the claim."""
        with _disk_errors(self.path, claiming=False):
            shutil.rmtree(stage, ignore_errors=True)
            try:
                stage.mkdir()
                yield stage
            finally:
                shutil.rmtree(stage, ignore_errors=True)
        self._lock.release()

    def abandon(self) -> None:
        """Give the claim back: an earlier result is marked as it was, an empty folder is removed."""
        if not self._lock.is_locked:
            return
        try:
            with _disk_errors(self.path, claiming=False):
                if self._before is not None and self.earlier is not None:
                    write_mark(self.path, self._before)
                else:
                    (self.path / MARK_FILE).unlink(missing_ok=True)
                    if self._created and not any(self.path.iterdir()):
                        self.path.rmdir()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abandon the claim; an error that is under way is not replaced by what a full disk says of the mark."""
        with suppress(OSError, OptimError) if error is not None else nullcontext():
            self.abandon()


def report_folder(path: Path, *, delivered: bool) -> Path:
    """Returns where the newest run wrote its report, in a run folder that it filled."""
    return path / ASIDE_FOLDER if not delivered and MODEL_FILE in _files_of_runs(path) else path


def report_page(folder: Path) -> Path:
    """Returns the report for people in a folder that has one, else that for programs."""
    from optim._engine.reports.schema import PAGE_FILE, REPORT_FILE  # pydantic takes its time

    page = folder / PAGE_FILE
    return page if page.is_file() else folder / REPORT_FILE


def _utc_now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _not_ours(entry: Path) -> OptimError:
    return OptimError.usage(
        "not-our-folder",
        f"{entry} is not from an earlier run",
        "this run writes a file or folder of that name",
        f"move {entry} away and run the same command, or give another folder with -o",
    )


def _require_ours(path: Path) -> None:
    in_the_way = next((p for p in (path, *path.parents) if p.exists() and not p.is_dir()), None)
    if in_the_way is not None:
        raise OptimError.usage(
            "not-a-folder",
            f"cannot write the result to {path}",
            f"{in_the_way} is a file",
            "give another folder with -o",
        )
    if not path.is_dir() or read_mark(path) is not None:
        return
    found = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith(TEMPORARY_PREFIX))
    if found:
        raise OptimError.usage(
            "not-our-folder",
            f"{path} is not the folder of an earlier run",
            f"it contains {some_of(found, 3)} and no run.json of optim",
            "give an empty or new folder with -o",
        )


@contextmanager
def _disk_errors(path: Path, *, claiming: bool) -> Iterator[None]:
    """What the file system refuses, as a diagnosis; while publishing, only what is about the disk."""
    try:
        yield
    except OSError as error:
        reason = f"{error.strerror or error}: {error.filename}" if error.filename else error.strerror or str(error)
        if is_disk_full(error.errno):
            raise OptimError.usage(
                "disk-full",
                f"there is no room for the result in {path}",
                reason,
                "free some space and run the same command, or give another folder with -o",
            ) from error
        if not claiming:
            raise
        raise OptimError.usage(
            "not-writable", f"cannot write the result to {path}", reason, "give another folder with -o"
        ) from error


def _locked(path: Path) -> FileLock:
    """A lock on the folder, outside of it; a process that dies lets go of it."""
    name = hashlib.sha256(str(path).encode()).hexdigest()[:16]
    try:
        return acquire(f"run-{name}", f"filling {path}", wait_s=0)
    except LockBusyError as error:
        raise OptimError.usage(
            "folder-in-use",
            f"another run is filling {path}",
            f"{error.holder} is still there",
            "wait for it, or give another folder with -o",
        ) from error


def _can_rename(path: Path) -> bool:
    """Returns whether the folder itself may be exchanged for another."""
    try:
        here = Path.cwd().resolve()
    except FileNotFoundError:  # the working folder is gone: nothing stands there
        here = Path()
    stands_inside = path == here or path in here.parents
    return not stands_inside and not os.path.ismount(path) and os.access(path.parent, os.W_OK | os.X_OK)


def _beside(path: Path, state: str) -> Path:
    """Returns the place of the old or of the new folder, while both are there."""
    return path.with_name(f".{path.name}.optim-{state}")


def _files_of_runs(folder: Path) -> tuple[str, ...]:
    """The names that an earlier run wrote into a folder."""
    mark = read_mark(folder)
    return mark.holds.files if mark is not None and mark.holds is not None else ()


def _users_entries(folder: Path) -> list[Path]:
    """The files and folders in a run folder that no run wrote."""
    ours = {MARK_FILE, *_files_of_runs(folder)}
    return [one for one in folder.iterdir() if one.name not in ours and not one.name.startswith(TEMPORARY_PREFIX)]


def _swap_in(stage: Path, path: Path) -> None:
    """Give ``path`` the contents of ``stage``, and keep the user's own files there."""
    if stage.parent == path:
        _replace_files(stage, path)
        return
    old = _beside(path, "old")
    shutil.copymode(path, stage)
    os.replace(path, old)
    try:
        os.replace(stage, path)
    except BaseException:
        os.replace(old, path)
        raise
    _discard(old, path)


def recover(path: Path) -> None:
    """Put right what a killed process left around ``path``."""
    if not path.name:
        return  # the root: nothing lies beside it
    old = _beside(path, "old")
    if old.is_dir():
        if path.exists():
            _discard(old, path)
        else:
            os.replace(old, path)
    _remove(_beside(path, "new"))
    if read_mark(path) is not None:
        for left in path.glob(f"{TEMPORARY_PREFIX}*"):
            _remove(left)


def _discard(old: Path, path: Path) -> None:
    """Delete the old folder, after the user's own files moved over."""
    for entry in _users_entries(old):
        if not (path / entry.name).exists():
            os.replace(entry, path / entry.name)
    _remove(old)


def _replace_files(stage: Path, path: Path) -> None:
    """The mark comes last: it says which files belong together."""
    new = {entry.name for entry in stage.iterdir()}
    for name in sorted(new - {MARK_FILE}):
        if (stage / name).is_dir():
            _remove(path / name)
        os.replace(stage / name, path / name)
    for name in set(_files_of_runs(path)) - new:
        _remove(path / name)
    os.replace(stage / MARK_FILE, path / MARK_FILE)


def _remove(entry: Path) -> None:
    """Delete a file or a folder of ours; what a link leads to stays, and what is mounted below too."""
    if entry.is_symlink() or not entry.is_dir():
        with suppress(FileNotFoundError, NotADirectoryError):
            entry.unlink()
    elif not _has_mounts(entry):
        shutil.rmtree(entry, ignore_errors=True)


def _has_mounts(folder: Path) -> bool:
    """Returns whether another file system, or another part of this one, is mounted at or below a folder."""
    import psutil

    folder = folder.resolve()
    places = (Path(partition.mountpoint) for partition in psutil.disk_partitions(all=True))
    return any(folder == place or folder in place.parents for place in places)
