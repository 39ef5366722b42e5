"""A whole batch: what is not finished is run, and the index is written after each run."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tomlkit

from optim.engine.fleet import LockBusyError, acquire, core_digest, load_registry, version_keys
from optim.errors import OptimError, describe_exception
from optim_fleet.batch.index import Index, IndexRow, error_row, read_index, rows_of, write_index
from optim_fleet.batch.matrix import Entry
from optim_fleet.batch.page import write_page
from optim_fleet.batch.program import ProgramEnd, ProgramWork, run_program

WORK_FOLDER = "_batch"
"""In the folder of a batch: the recipe of each run, and what it said."""


@dataclass(frozen=True, slots=True)
class ToldRun:
    """Who is told how a batch goes.

    Attributes:
        begun: a run is about to be handed to whoever runs it, with the file that takes what it says.
        finished: a run has its rows; True where they are from before.
    """

    begun: Callable[[str, Path], None]
    finished: Callable[[Sequence[IndexRow], bool], None]


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Hold a folder for a batch; it may be absent, empty, or of an earlier batch.

    Raises:
        OptimError[not-our-folder]: it holds something else.
        OptimError[folder-in-use]: another batch is filling it.
    """
    if folder.exists() and (not folder.is_dir() or (any(folder.iterdir()) and read_index(folder) is None)):
        raise OptimError.usage(
            "not-our-folder",
            f"{folder} is not the folder of an earlier batch",
            "it has no index.json of one" if folder.is_dir() else "it is a file",
            "name an empty or a new folder after -o",
        )
    name = f"batch-{hashlib.sha256(str(folder.absolute()).encode()).hexdigest()[:16]}"
    try:
        lock = acquire(name, f"optim batch -o {folder}", wait_s=0.0)
    except LockBusyError as busy:
        raise OptimError.usage(
            "folder-in-use",
            f"another batch is filling {folder}",
            f"{busy.holder} holds it",
            "wait for it, or name another folder after -o",
        ) from busy
    try:
        (folder / WORK_FOLDER).mkdir(parents=True, exist_ok=True)
        if read_index(folder) is None:
            write_index(Index(), folder)
        yield
    finally:
        if not (read_index(folder) or Index()).rows:  # no run was begun: nothing is left behind
            shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def run_batch(
    entries: Sequence[Entry], folder: Path, executor: Executor, told: ToldRun, *, flags: Sequence[str] = (), fresh: bool
) -> Index:
    """Run what is not finished; each run is written down when it ends, so that a batch that is stopped goes on.

    Args:
        entries: what is asked.
        folder: of the batch, claimed.
        executor: runs :func:`optim_fleet.batch.program.run_program`.
        told: is told of each run.
        flags: of ``optim run``, for every run.
        fresh: run again what is finished, and take nothing from the cache.

    Returns:
        The index, in the order of ``entries``.
    """
    before = read_index(folder) or Index()
    found: dict[str, tuple[IndexRow, ...]] = {}
    keys: dict[str, str] = {}
    waiting: dict[Future[ProgramEnd], tuple[Entry, str]] = {}
    code = code_key()
    for entry in entries:
        if entry.error is not None or entry.recipe is None:
            assert entry.error is not None
            found[entry.name] = (error_row(entry, entry.error),)
            told.finished(found[entry.name], False)
            continue
        recipe = folder / WORK_FOLDER / f"{entry.name}.toml"
        text = _recipe_text(entry)
        keys[entry.name] = _key(entry, text, flags, code)
        known = () if fresh else before.finished(entry.name, keys[entry.name], folder)
        if known:
            found[entry.name] = known
            told.finished(known, True)
            continue
        recipe.write_text(text, encoding="utf-8")
        arguments = _arguments(entry, folder, recipe, [*flags, "--no-cache"] if fresh else flags)
        log = recipe.with_suffix(".log")
        told.begun(entry.name, log)  # who shows it takes an earlier log away
        future = executor.submit(run_program, ProgramWork(arguments, str(log.absolute())))
        waiting[future] = entry, shlex.join(["optim", *arguments])
    index = _index(entries, found, keys)
    _write(index, folder)
    for future in as_completed(waiting):
        entry, command = waiting[future]
        found[entry.name] = _rows(entry, future, folder, command)
        index = _index(entries, found, keys)
        _write(index, folder)
        told.finished(found[entry.name], False)
    return index


def _rows(entry: Entry, future: Future[ProgramEnd], folder: Path, command: str) -> tuple[IndexRow, ...]:
    try:
        done = future.result()
    except Exception as error:  # of the cluster's: a worker that was killed again and again
        lost = OptimError("run-lost", f"{entry.name} was lost", describe_exception(error), command)
        return (error_row(entry, lost, command=command),)
    return rows_of(entry, done, folder, command)


def _write(index: Index, folder: Path) -> None:
    write_index(index, folder)
    write_page(index, folder)


def _index(entries: Sequence[Entry], found: Mapping[str, tuple[IndexRow, ...]], keys: Mapping[str, str]) -> Index:
    rows = tuple(row for entry in entries for row in found.get(entry.name, ()))
    return Index(rows=rows, keys={name: key for name, key in keys.items() if name in found})


def _arguments(entry: Entry, folder: Path, recipe: Path, flags: Sequence[str]) -> tuple[str, ...]:
    output = (folder / entry.name).absolute()
    return "run", "-o", str(output), "--recipe", str(recipe.absolute()), *flags, "--json", "--", entry.source


def _recipe_text(entry: Entry) -> str:
    """The recipe of one run, without the matrix."""
    assert entry.recipe is not None
    said = entry.recipe.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return tomlkit.dumps(said)


def _key(entry: Entry, recipe: str, flags: Sequence[str], code: str) -> str:
    """What a run depends on: what is asked, the files that are named, and the code."""
    assert entry.recipe is not None
    named = [entry.source, *filter(None, [entry.recipe.data])]
    depends_on = [recipe, list(flags), code, [[name, _stamp(Path(name))] for name in named]]
    return hashlib.sha256(json.dumps(depends_on).encode()).hexdigest()


def _stamp(path: Path) -> list[tuple[str, int, int]]:
    """Size and time of a file, or of every file in a folder; empty where it is neither, as for a factory."""
    if path.is_file():
        status = path.stat()
        return [(path.name, status.st_size, status.st_mtime_ns)]
    files = [Path(root, name) for root, _, names in os.walk(path) for name in names]
    return [
        (str(file.relative_to(path)), (status := file.stat()).st_size, status.st_mtime_ns) for file in sorted(files)
    ]


def code_key() -> str:
    """What of optim and its plugins a run depends on: their versions, and digests of sources that may change."""
    plugins = version_keys(plugin.info for plugin in load_registry().plugins)
    return json.dumps([core_digest(), plugins])
