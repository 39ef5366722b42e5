"""Files of the store as they travel: what an order needs, in pieces, checked by sha256, in place at once or not at all.

A run tells a worker to :func:`take` pieces and to :func:`put` the file in its place, or to :func:`give` pieces; all are
called by dask (``Client.run``), beside whatever the worker's threads do.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from optim.errors import OptimError
from optim.folders import cache_folder
from optim_fleet.cluster.order import File, is_name

PIECE_BYTES = 4 << 20
"""Of a file that travels: twice as much gains nothing, and is held several times in memory on its way."""

_INCOMING = "incoming"
_STORED = re.compile(r"models/([0-9a-f]{64})(\.[A-Za-z0-9_.]+)?")
"""Files of the store that are called by the digest of their bytes."""

_known: dict[tuple[str, int, int], str] = {}
_guard = threading.Lock()


def file_at(root: Path, name: str) -> File:
    """A file of a store, with its digest; what is called by it is not read."""
    path = root / name
    status = path.stat()
    called = _STORED.fullmatch(name)
    return File(name, status.st_size, called[1] if called else digest_of(path))


def digest_of(path: Path) -> str:
    """Sha256 of a file, read once as long as it looks the same."""
    status = path.stat()
    key = str(path), status.st_size, status.st_mtime_ns
    with _guard:
        if key in _known:
            return _known[key]
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    with _guard:
        _known[key] = digest
    return digest


def has(root: Path, file: File) -> bool:
    """Whether a store has a file, and it is what it should be."""
    path = root / file.name
    try:
        return path.stat().st_size == file.size_bytes and digest_of(path) == file.digest
    except OSError:
        return False


def with_parts(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Files behind names: those of a folder, and of a graph its weights and compiled files too."""
    for name in names:
        path = root / name
        if path.is_dir():
            yield from (file.relative_to(root).as_posix() for file in sorted(path.rglob("*")) if file.is_file())
        elif path.is_file():
            yield name
            if path.suffix == ".onnx":
                yield from (f"{Path(name).parent.as_posix()}/{part}" for part in _parts(path))


@lru_cache(maxsize=1024)
def _parts(path: Path) -> tuple[str, ...]:
    """Files beside a graph of the store, which is called by its digest and never another.

    Raises:
        OptimError[weights-elsewhere]: it is linked to files that do not lie in the store.
    """
    import onnx

    from optim.engine.fleet import linked_files
    from optim.onnx import external_files

    linked = linked_files(onnx.load(path, load_external_data=False))
    if linked:
        raise OptimError.usage(
            "weights-elsewhere",
            "other machines cannot read the place of the model's weights",
            f"it is linked to {min(linked)}",
            "export it with --weights copy",
        )
    return tuple(external_files(path))


def placed(part: Path, root: Path, file: File) -> None:
    """Put a file that has come whole in its place.

    Raises:
        ValueError: it is not what it should be; it is gone then.
    """
    path = root / file.name
    if not path.resolve().is_relative_to(root.resolve()):
        part.unlink()
        raise ValueError(f"{file.name} is not a file of the store")
    with part.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    if found != file.digest:
        part.unlink()
        raise ValueError(f"{file.name} arrived damaged: sha256 {found[:12]}, expected {file.digest[:12]}")
    path.parent.mkdir(parents=True, exist_ok=True)
    os.replace(part, path)
    status = path.stat()
    with _guard:
        _known[str(path), status.st_size, status.st_mtime_ns] = found


def part_of(root: Path, file: File, owner: str) -> Path:
    """Where a file grows until it is whole."""
    name = hashlib.sha256(f"{file.name} {file.digest} {owner}".encode()).hexdigest()
    folder = root / _INCOMING
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{name}.tmp"


def is_there(name: str, size_bytes: int, digest: str) -> bool:
    """On a worker: whether it has a file."""
    return has(cache_folder(), File(name, size_bytes, digest))


def take(name: str, digest: str, owner: str, offset: int, data: bytes) -> None:
    """On a worker: keep a piece."""
    part = part_of(cache_folder(), File(name, 0, digest), owner)
    with part.open("r+b" if part.exists() and offset else "wb") as stream:
        stream.seek(offset)
        stream.write(data)


async def put(name: str, size_bytes: int, digest: str, owner: str) -> None:
    """On a worker: put a file in its place; the event loop goes on while it is read."""
    root, file = cache_folder(), File(name, size_bytes, digest)
    await asyncio.to_thread(placed, part_of(root, file, owner), root, file)


def give(name: str, offset: int, size: int) -> bytes:
    """On a worker: a piece of one of its files.

    Raises:
        ValueError: the name leads out of the store.
    """
    if not is_name(name):
        raise ValueError(f"{name} is not a file of the store")
    with (cache_folder() / name).open("rb") as stream:
        stream.seek(offset)
        return stream.read(size)
