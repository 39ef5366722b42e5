"""What a file looked like when it was read: while it looks the same, it need not be read again."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SETTLED_S = 3.0
"""Files younger than this may change once more with no trace: some file systems keep times in steps of two seconds."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file and what changes with its content: no program writes a file and leaves all of it as it was.

    Attributes:
        path: absolute.
        size: in bytes.
        modified_ns: time of the last write, which programs may set.
        changed_ns: time of the last change of any kind, which none can set; on Windows the time it was made.
        inode: number of the file on its device; another file under the same name has another.
        device: number of the device.
    """

    path: str
    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    device: int


def stamps_of(paths: Iterable[Path]) -> tuple[Stamp, ...] | None:
    """Stamps of files; None where one is absent, or so young that a later write could leave the same stamp."""
    found = []
    newest = (time.time() - _SETTLED_S) * 1e9
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            return None
        if max(status.st_mtime_ns, status.st_ctime_ns) > newest:
            return None
        found.append(
            Stamp(
                str(path.absolute()),
                status.st_size,
                status.st_mtime_ns,
                status.st_ctime_ns,
                status.st_ino,
                status.st_dev,
            )
        )
    return tuple(found)


def still_there(stamps: Iterable[Stamp]) -> bool:
    """Whether every file looks as it did."""
    known = tuple(stamps)
    return bool(known) and stamps_of(Path(stamp.path) for stamp in known) == known
