"""Files that the user names: whether a model is there, and whether a file is as it was when it was read."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from optim.errors import OptimError, some_of

_REMOTE = ("http:", "https:", "hf:", "s3:")
"""How addresses begin: read as paths they would be files that are not there."""


def check_file(path: Path) -> None:
    """Refuse a path that is no readable, non-empty file, saying what there is instead."""
    if path.is_dir():
        inside = sorted(found.name for found in path.glob("*.onnx"))
        other = "give an .onnx file, or a folder with config.json and weights"
        fix = f"name the file: {path / inside[0]}" if inside else other
        cause = f"it holds {some_of(inside, 8)}" if inside else "it holds no .onnx file"
        raise OptimError("model-is-a-folder", f"{path} is a folder, not a model", cause, fix)
    if not path.exists():
        if path.parts and path.parts[0] in _REMOTE:
            what, cause = f"{path} is no file", "it is an address that optim cannot follow, or one as a path"
            fix = "hf://ORG/NAME/FILE, or https://HOST/FOLDER/model.onnx, as text; or download it, and name the file"
            raise OptimError("model-missing", what, cause, fix)
        near = sorted(found.name for found in path.parent.glob("*.onnx")) if path.parent.is_dir() else []
        here = path.absolute().parent
        near = get_close_matches(path.name, near, len(near) or 1, 0.0)
        cause = f"{here} holds {some_of(near, 8)}" if near else f"there is no .onnx file in {here}"
        folder = "" if path.suffix else "; for a model of the Hugging Face hub write hf://ORG/NAME"
        raise OptimError("model-missing", f"there is no file {path}", cause, f"check the path{folder}")
    if not path.is_file():
        raise OptimError(
            "model-not-a-file",
            f"{path} is no file",
            "it is a pipe, a device or a socket, and a model is read more than once",
            # what comes of a device may have no end
            f"cat {path} > model.onnx, then name model.onnx" if path.is_fifo() else "name an .onnx file",
        )
    try:
        with path.open("rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        raise OptimError(
            "model-unreadable", f"{path} cannot be read", str(error.strerror), f"chmod u+r {path}"
        ) from error
    if empty:
        raise OptimError("model-empty", f"{path} is empty", "it has 0 bytes", "copy or download the file again")
    try:
        path.name.encode()
    except UnicodeEncodeError as error:  # a graph names the file that has its weights
        raise name_refused(path.name) from error


def name_refused(name: str) -> OptimError:
    """The error for a file whose name, as Python has read it, is no text: it opens, and nothing can say its name."""
    reading = sys.getfilesystemencoding()
    try:
        os.fsencode(name).decode()
    except UnicodeError:
        cause, fix = f"its name is no text in UTF-8: {name!a}", "rename it"
    else:
        cause = f"its name is text in UTF-8, and this Python reads names as {reading}: {name!a}"
        fix = "set PYTHONUTF8=1, or a locale in UTF-8: LC_ALL=C.UTF-8"
    return OptimError.usage("file-refused", "a file or folder cannot be used", cause, fix)


_SETTLED_S = 3.0
"""Files younger than this may change once more with no trace: some file systems keep times in steps of two seconds."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """A file and what changes with its content: no program writes a file and leaves all of it as it was.

    Attributes:
        modified_ns: time of the last write, which programs may set.
        changed_ns: time of the last change of any kind, which none can set; on Windows the time it was made.
        inode: number of the file on its device; another file under the same name has another.
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
            one = path.stat()
        except OSError:
            return None
        if max(one.st_mtime_ns, one.st_ctime_ns) > newest:
            return None
        place = str(path.absolute())
        found.append(Stamp(place, one.st_size, one.st_mtime_ns, one.st_ctime_ns, one.st_ino, one.st_dev))
    return tuple(found)


def still_there(stamps: Iterable[Stamp]) -> bool:
    """Whether every file looks as it did."""
    known = tuple(stamps)
    return bool(known) and stamps_of(Path(stamp.path) for stamp in known) == known
