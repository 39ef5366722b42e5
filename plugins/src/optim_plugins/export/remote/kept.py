"""What was downloaded is kept below the cache, each graph in a folder with the files that it refers to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from optim.errors import OptimError
from optim.folders import cache_folder

Get = Callable[[str, Path], None]
"""Brings a file, by its name beside the graph, to a path."""


def _nothing(folder: Path) -> None:
    """Bring nothing more."""


def downloads() -> Path:
    """Where models are kept that came from an address; what is in it can be made again."""
    folder = cache_folder() / "downloads"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def bring_model(folder: Path, name: str, get: Get, get_more: Callable[[Path], None] = _nothing) -> Path:
    """A graph and the files that it refers to, in a folder of downloads; a folder that is there already is whole.

    Args:
        folder: below :func:`downloads`, of this very content.
        name: of the graph.
        get: brings one file.
        get_more: brings into a folder what else belongs to the graph.

    Returns:
        The path of the graph.

    Raises:
        OptimError[external-data-outside]: the graph refers to files outside of its folder.
    """
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=downloads(), prefix=".new-") as scratch:
            made = Path(scratch) / "made"
            made.mkdir()
            get(name, made / name)
            for beside in _files_beside(made / name):
                (made / beside).parent.mkdir(parents=True, exist_ok=True)
                get(beside, made / beside)
            get_more(made)
            try:
                made.rename(folder)
            except OSError:
                if not folder.is_dir():  # another process was quicker
                    raise
    os.utime(folder)
    return folder / name


def forget(folder: Path) -> None:
    """Remove a download that has been replaced."""
    shutil.rmtree(folder, ignore_errors=True)


def _files_beside(graph: Path) -> list[str]:
    """Files with weights that a graph refers to; of what is no graph none: reading it will say so."""
    from google.protobuf.message import DecodeError

    from optim.onnx import external_files

    try:
        found = external_files(graph)
    except DecodeError:
        return []
    for name in found:
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in name:
            raise OptimError(
                "external-data-outside",
                f"{graph.name} refers to a file outside of its folder",
                f"its weights are in {name}",
                "do not use a model that asks for other files of this machine",
            )
    return found
