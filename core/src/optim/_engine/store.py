"""The cache on disk: models, feeds, reference outputs, and what was found out about candidates.

Layout below the cache folder (``OPTIM_CACHE_DIR``, else the platform's user cache)::

    models/      graphs and weights, called by their sha256
    feeds/       one folder for each set of feeds
    references/  the original's outputs on them; below a key a folder for each time they were made
    steps/       answers of jobs as JSON, by the key of everything they depend on
    runs/        finished runs, by the key of everything the user asked for
    experience/  what finished runs found, a summary each
    packed/      weights as onnxruntime packs them, one folder for each model that was opened so
    downloads/   models that came from an address
    active/      a held lock for each run under way: nothing is pruned meanwhile

Every write is atomic (temporary name, then rename). Failures are not kept.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from optim.errors import OptimError, disk_error
from optim.folders import cache_folder
from optim.jobs.wire import from_wire

T = TypeVar("T")

_LOG = logging.getLogger("optim.store")

_TRIES = 50 if os.name == "nt" else 0
"""To give a record a name that another process has open, which Windows refuses."""
_TRY_AGAIN_S = 0.02

_DEFAULT_CAP_BYTES = 20 << 30
_SHELVES = ("models", "feeds", "references", "steps", "runs", "experience", "packed", "downloads")


@dataclass(frozen=True, slots=True)
class Usage:
    """What one shelf of the cache holds."""

    shelf: str
    entries: int
    size_bytes: int


class Store:
    """The cache of this user, or the one at ``root``."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = root or cache_folder()
        with self._usable():
            for shelf in (*_SHELVES, "active"):
                (self.root / shelf).mkdir(parents=True, exist_ok=True)

    @property
    def models(self) -> Path:
        """The folder that all graphs share."""
        return self.root / "models"

    def read(self, shelf: str, key: str, kind: type[T]) -> T | None:
        """The value of type ``kind`` kept under ``key``, or None; marks it as used.

        What is damaged, or was written by an optim whose types were others, is dropped, and this is said.
        """
        path = self.root / shelf / f"{key}.json"
        try:
            if path.is_file():  # no pipe, which would never end
                found = from_wire(kind, json.loads(path.read_text()))
                os.utime(path)
                return found
        except OSError:
            pass
        except (ValueError, RecursionError) as error:
            self.drop(shelf, path.name, str(error))
        return None

    def read_all(self, shelf: str, kind: type[T]) -> tuple[list[T], str]:
        """All values of type ``kind`` of a shelf, the last used last; and how many were damaged, and why: they go."""
        found, damaged = [], []
        for path in sorted((self.root / shelf).glob("*.json"), key=_used):
            try:
                found.append(from_wire(kind, json.loads(path.read_text())))
            except (OSError, ValueError, RecursionError) as error:
                damaged.append(str(error).partition("\n")[0])
                _delete(path)
        return found, f"{len(damaged)} ({damaged[0]})" if damaged else ""

    def keep_newest(self, shelf: str, most: int) -> None:
        """Delete what was used longest ago until so many entries of a shelf are left."""
        for path in sorted((self.root / shelf).glob("*.json"), key=_used)[:-most]:
            _delete(path)

    def clear(self, shelf: str) -> tuple[int, int]:
        """Delete all of a shelf; returns how many entries and bytes."""
        entries = [(path, _size(path)) for path in (self.root / shelf).iterdir()]
        for path, _ in entries:
            _delete(path)
        return len(entries), sum(size for _, size in entries)

    def drop(self, shelf: str, name: str, why: str) -> None:
        """Delete an entry, a record or a folder, that cannot be used, and say so: what it held is made anew."""
        path = self.root / shelf / name
        _LOG.warning("the cache entry %s was damaged and is dropped: %s", path, why.splitlines()[0] if why else "")
        _delete(path)

    def write(self, shelf: str, key: str, data: object) -> None:
        """Keep JSON values under ``key``."""
        path = self.root / shelf / f"{key}.json"
        temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
        try:
            temporary.write_text(json.dumps(data))
            _put(temporary, path)
        except OSError as error:
            raise disk_error(error, f"cannot write to the cache {self.root}") from error
        finally:
            temporary.unlink(missing_ok=True)

    def folder(self, shelf: str, key: str, make: Callable[[Path], object]) -> Path:
        """A folder that is there whole or not at all.

        Args:
            shelf: that it lies on.
            key: of what it depends on.
            make: fills a temporary folder; not called when the folder is there.
        """
        final = self.root / shelf / key
        if final.is_dir():
            os.utime(final)
        else:
            self._fill(final, make)
        return final

    def new_folder(self, shelf: str, key: str, make: Callable[[Path], T]) -> tuple[Path, T]:
        """One more folder under a key, called by nothing but itself: others may be using those that are there.

        Returns:
            The folder, and what ``make`` returned.
        """
        final = self.root / shelf / key / uuid.uuid4().hex[:12]
        return final, self._fill(final, make)

    def supersede(self, folder: Path) -> None:
        """Delete the other folders under the same key, unless another run under way may be using one.

        Whoever comes later must find this one: say where it is before calling this.
        """
        with self._alone(besides=1) as alone:
            if alone:
                for other in set(folder.parent.iterdir()) - {folder}:
                    _delete(other)

    def _fill(self, final: Path, make: Callable[[Path], T]) -> T:
        temporary = final.with_name(f".{uuid.uuid4().hex}.tmp")
        with self._usable():
            temporary.mkdir(parents=True)
        try:
            made = make(temporary)
            with self._usable():
                try:
                    os.replace(temporary, final)
                except OSError:
                    if not final.is_dir():  # another process was quicker
                        raise
            return made
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Hold a marker: nothing that others may use is deleted while any run holds one."""
        marker = self.root / "active" / f"{os.getpid()}-{uuid.uuid4().hex}.lock"
        lock = FileLock(marker)
        with self._usable(), self._door():
            lock.acquire()
        try:
            yield
        finally:
            lock.release()
            marker.unlink(missing_ok=True)

    def others_active(self, besides: int = 0) -> bool:
        """Returns whether more than ``besides`` runs hold a marker; those of dead processes are removed."""
        held = 0
        for marker in (self.root / "active").glob("*.lock"):
            try:
                with FileLock(marker, timeout=0):
                    pass
                marker.unlink(missing_ok=True)
            except Timeout:
                held += 1
        return held > besides

    @contextmanager
    def _alone(self, besides: int = 0) -> Iterator[bool]:
        """Whether at most ``besides`` runs are under way; none begins until this is left."""
        with self._usable(), self._door():
            yield not self.others_active(besides)

    def _door(self) -> FileLock:
        return FileLock(self.root / ".door")

    def usage(self) -> list[Usage]:
        """Returns what each shelf holds."""
        found = []
        for shelf in _SHELVES:
            entries = [entry for entry in (self.root / shelf).iterdir() if not entry.name.endswith(".tmp")]
            found.append(Usage(shelf, len(entries), sum(map(_size, entries))))
        return found

    def prune(self, cap_bytes: int) -> tuple[int, int]:
        """Delete what was used longest ago until at most ``cap_bytes`` are left.

        Returns:
            Entries and bytes deleted; nothing is deleted while another run is under way.

        Raises:
            OptimError[cache-in-use]: a run is under way.
        """
        with self._alone() as alone:
            if not alone:
                raise OptimError.usage(
                    "cache-in-use", "the cache is in use", "a run is under way", "run it again when that has finished"
                )
            return self._prune(cap_bytes)

    def _prune(self, cap_bytes: int) -> tuple[int, int]:
        entries = [entry for shelf in _SHELVES for entry in (self.root / shelf).iterdir()]
        sized = [(entry.lstat().st_mtime, _size(entry), entry) for entry in entries]
        total = sum(size for _, size, _ in sized)
        deleted = freed = 0
        for _, size, entry in sorted(sized, key=lambda item: item[0]):
            if total - freed <= cap_bytes and not entry.name.endswith(".tmp"):
                continue
            with self._usable():
                _delete(entry)
            deleted, freed = deleted + 1, freed + size
        for scratch in self.root.glob("scratch-*"):
            _delete(scratch)
        return deleted, freed

    def trim(self, cap_bytes: int = _DEFAULT_CAP_BYTES) -> None:
        """Keep the cache below its cap after a run; left for later while another run is under way."""
        if sum(item.size_bytes for item in self.usage()) > cap_bytes:
            with self._alone() as alone:
                if alone:
                    self._prune(cap_bytes)

    def keep_only(self, made: set[Path], needed: set[Path]) -> None:
        """Delete graphs and weights that a run made and dropped, and weights that only dropped graphs had.

        What another run under way may share stays, and what a finished run has as its source or its result.
        What killed jobs left half done goes too.
        """
        with self._alone(besides=1) as alone:
            if not alone:
                return
            for left_behind in (*self.root.glob("scratch-*"), *self.models.glob("*.tmp"), *self.models.glob(".*.tmp")):
                _delete(left_behind)
            finished = b""
            for record in (self.root / "runs").glob("*.json"):
                with suppress(OSError):
                    finished += record.read_bytes() if record.is_file() else b""
            dropped = {path for path in made - needed if path.is_file() and path.name.encode() not in finished}
            graphs = {path for path in dropped if path.suffix == ".onnx"}
            weights = _weights_of(graphs) | (dropped - graphs)
            for path in graphs:
                path.unlink()
            if weights:
                for path in weights - _weights_of(self.models.glob("*.onnx")):
                    path.unlink(missing_ok=True)

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """What the file system refuses, as a diagnosis."""
        try:
            yield
        except OSError as error:
            raise disk_error(error, f"the cache folder {self.root} cannot be used") from error


def names_in_messages(stored: Path, source: Path) -> dict[str, str]:
    """The user's name for a file of the cache, which messages call by its digest or the first part of it."""
    return dict.fromkeys((stored.name, f"{stored.stem[:12]}{stored.suffix}"), source.name)


def cache_key(*parts: object) -> str:
    """Sha256 over JSON values, hex."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _weights_of(graphs: Iterable[Path]) -> set[Path]:
    from optim.onnx.external_data import external_files

    found: set[Path] = set()
    for path in graphs:
        with suppress(Exception):  # a plugin may have left anything there
            found |= {path.parent / location for location in external_files(path)}
    return found


def _put(temporary: Path, path: Path) -> None:
    """Give a record its name; on Windows not while another process reads the earlier one, which takes an instant."""
    for _ in range(_TRIES):
        with suppress(PermissionError):
            os.replace(temporary, path)
            return
        time.sleep(_TRY_AGAIN_S)
    os.replace(temporary, path)


def _used(entry: Path) -> float:
    """When an entry was used last; 0 if another process deletes it meanwhile."""
    with suppress(OSError):
        return entry.lstat().st_mtime
    return 0.0


def _size(entry: Path | os.DirEntry[str]) -> int:
    """What an entry takes; links count for themselves, and what another process deletes meanwhile for nothing."""
    with suppress(OSError):
        if entry.is_dir() and not entry.is_symlink():
            with os.scandir(entry) as inner:
                return sum(map(_size, inner))
        return (entry.lstat() if isinstance(entry, Path) else entry.stat(follow_symlinks=False)).st_size
    return 0


def _delete(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        with suppress(OSError):
            entry.unlink(missing_ok=True)
