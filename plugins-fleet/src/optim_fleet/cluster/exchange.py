"""A folder or an fsspec URL where all machines of a cluster exchange files, each called by its sha256."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from optim.errors import OptimError, describe_exception, is_disk_full
from optim_fleet.cluster import files
from optim_fleet.cluster.order import File

_BUCKETS = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss"})
"""Systems without folders: to make one there would make the bucket, also where its name is mistyped."""


class Exchange:
    """What lies at a URL.

    Args:
        url: ``file:///shared/optim``, ``s3://bucket/optim``, or what else fsspec knows and other machines can reach.

    Raises:
        OptimError[bad-store-url]: nobody knows such a URL, or only this process could reach it.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        if url.startswith("memory:"):
            raise _bad(url, "another process cannot read memory:// of this one")
        try:
            import fsspec

            self._system, self._folder = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError, OSError) as error:
            raise _bad(url, describe_exception(error)) from error

    def require_usable(self) -> None:
        """See that something can be written there and read again.

        Raises:
            OptimError[bad-store-url]: it cannot.
        """
        path = f"{self._folder}/.optim-{uuid.uuid4().hex}"
        with self._reaching():
            self._make_folder()
            self._system.pipe_file(path, b"optim")
            read: Any = self._system.cat_file(path)
            self._system.rm_file(path)
        if read != b"optim":
            raise _bad(self._url, "what is written there is not what is read")

    def offer(self, wanted: Iterable[File], root: Path) -> int:
        """Lay files there that are not there yet; returns their bytes.

        Raises:
            OptimError[bad-store-url]: nothing can be written there any more.
        """
        with self._reaching():
            return sum(self._offer(file, root) for file in wanted)

    def fetch(self, file: File, root: Path) -> bool:
        """Bring a file into a store; returns whether it was there. What is not what its name says is deleted.

        Raises:
            OptimError[bad-store-url]: nothing can be read there any more.
            OSError: there is no room in the store.
        """
        part = files.part_of(root, file, uuid.uuid4().hex)
        try:
            with self._reaching():
                return self._fetch(file, part, root)
        finally:
            part.unlink(missing_ok=True)

    def _offer(self, file: File, root: Path) -> int:
        final = f"{self._folder}/{file.digest}"
        if self._system.exists(final) and self._system.size(final) == file.size_bytes:
            return 0
        temporary = f"{final}.{uuid.uuid4().hex}.tmp"
        self._make_folder()
        with (root / file.name).open("rb") as stream, self._system.open(temporary, "wb") as there:
            while piece := stream.read(files.PIECE_BYTES):
                there.write(piece)
        self._system.mv(temporary, final)
        return file.size_bytes

    def _fetch(self, file: File, part: Path, root: Path) -> bool:
        final = f"{self._folder}/{file.digest}"
        if not self._system.exists(final):
            return False
        with self._system.open(final, "rb") as there, part.open("wb") as stream:
            while piece := there.read(files.PIECE_BYTES):
                stream.write(piece)
        try:
            files.placed(part, root, file)
        except ValueError:
            self._system.rm_file(final)
            return False
        return True

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Put what a library for some cloud raises into words; a full disk of this machine is none of its errors."""
        try:
            yield
        except Exception as error:
            if isinstance(error, OSError) and is_disk_full(error.errno):
                raise
            raise _bad(self._url, describe_exception(error)) from error

    def _make_folder(self) -> None:
        if self._url.partition("://")[0] not in _BUCKETS:
            self._system.makedirs(self._folder, exist_ok=True)


def _bad(url: str, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-store-url",
        f"files cannot be exchanged at --store-url {url}",
        cause,
        "a folder that all machines see, as file:///shared/optim, or s3://BUCKET/FOLDER with s3fs installed",
    )
