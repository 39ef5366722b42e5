"""Put a finished folder in the place of an earlier one, so that nobody ever sees half of both.

The new folder lies beside the old one as ``.NAME.optim-new``. The old one is renamed to ``.NAME.optim-old``, the new
one takes its name, and files that the user had put there move over. A process killed between these steps leaves
what :func:`recover` puts right. The caller holds a lock on the folder.

Renaming does not work for a mount point, below a folder that may not be written, or where a shell stands in the
folder. Files are then replaced one by one, the mark last.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from optim._engine.runs.mark import MARK_FILE, TEMPORARY_PREFIX, read_mark


def _can_rename(path: Path) -> bool:
    """Returns whether the folder itself may be exchanged for another."""
    try:
        here = Path.cwd().resolve()
    except FileNotFoundError:  # the working folder is gone: nothing stands there
        here = Path()
    stands_inside = path == here or path in here.parents
    return not stands_inside and not os.path.ismount(path) and os.access(path.parent, os.W_OK | os.X_OK)


def stage_of(path: Path) -> Path:
    """Returns where the new folder is written."""
    return path.with_name(f".{path.name}.optim-new") if _can_rename(path) else path / f"{TEMPORARY_PREFIX}new"


def users_entries(folder: Path) -> list[Path]:
    """The files and folders in a run folder that no run wrote."""
    mark = read_mark(folder)
    ours = {MARK_FILE, *(mark.holds.files if mark and mark.holds else ())}
    entries = [entry for entry in folder.iterdir() if not entry.name.startswith(TEMPORARY_PREFIX)]
    return [entry for entry in entries if entry.name not in ours]


def swap_in(stage: Path, path: Path) -> None:
    """Give ``path`` the contents of ``stage``, and keep the user's own files there."""
    if stage.parent == path:
        _replace_files(stage, path)
        return
    old = _old_of(path)
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
    old = _old_of(path)
    if old.is_dir():
        if path.exists():
            _discard(old, path)
        else:
            os.replace(old, path)
    _remove(path.with_name(f".{path.name}.optim-new"))
    if read_mark(path) is not None:
        for left in path.glob(f"{TEMPORARY_PREFIX}*"):
            _remove(left)


def _discard(old: Path, path: Path) -> None:
    """Delete the old folder, after the user's own files moved over."""
    for entry in users_entries(old):
        if not (path / entry.name).exists():
            os.replace(entry, path / entry.name)
    _remove(old)


def _replace_files(stage: Path, path: Path) -> None:
    """The mark comes last: it says which files belong together."""
    mark = read_mark(path)
    new = {entry.name for entry in stage.iterdir()}
    for name in sorted(new - {MARK_FILE}):
        if (stage / name).is_dir():
            _remove(path / name)
        os.replace(stage / name, path / name)
    for name in set(mark.holds.files if mark and mark.holds else ()) - new:
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


def _old_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.optim-old")
