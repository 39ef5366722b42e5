"""Files that a command writes. Check them before the work, and write them whole at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from optim.errors import OptimError, disk_error


def require_drawing(path: Path, flag: str) -> None:
    """Refuses a file that cannot take a drawing.

    Raises:
        OptimError[bad-plot]: the suffix is wrong, or the folder is missing.
        OptimError[not-writable]: the file cannot be written.
    """
    if path.suffix != ".svg" or not path.absolute().parent.is_dir():
        raise OptimError.usage(
            "bad-plot",
            f"cannot write a plot to {path}",
            "it must be an .svg in a folder that exists",
            f"{flag} {path.with_suffix('.svg').name}",
        )
    require_writable(path)


def require_writable(path: Path) -> None:
    """Refuses a file that cannot be written. Leaves the file as it is.

    Raises:
        OptimError[not-writable]: the folder is missing, or nothing may be written to it.
    """
    with _writing(path):
        is_new = not path.exists()
        path.open("a", encoding="utf-8").close()
        if is_new:
            path.unlink()


def write_text(path: Path, text: str) -> None:
    """Writes a text in UTF-8.

    Raises:
        OptimError[disk-full]: the disk is full.
        OptimError[not-writable]: the file cannot be written.
    """
    with _writing(path):
        path.write_text(text, encoding="utf-8")


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fix = "name a file in a folder that you may write to, on a disk with room"
        raise replace(disk_error(error, f"{path} cannot be written"), fix=fix) from error
