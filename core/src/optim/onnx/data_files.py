"""Data files: the bytes of many tensors in one file, which appears under its name when it is whole."""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np
import onnx_ir as ir
from onnx_ir import TensorProtocol

_PAGE_BYTES = 4096
_LARGE_BYTES = 1 << 20

_PIECE_BYTES = 1 << 18
"""What is read at once: a larger piece is memory that the system hands out and takes back each time, which cost five
times as much as the copying (90 MB: 0.05 s of processor time in pieces of 256 KiB, 0.24 s in pieces of 16 MiB)."""


def write_tensors(
    tensors: Sequence[tuple[ir.Value, TensorProtocol]], path: Path, tell: Callable[[bytes], object] | None = None
) -> None:
    """Stream tensors into one file and point their values at it.

    The same bytes in memory (a tensor of two initializers, or two views of one array) are written once.

    Args:
        tensors: what is written, in this order.
        path: of the file.
        tell: called with everything that is written, for a digest of it.
    """
    position = 0
    places: dict[tuple[str, int, int] | int, tuple[int, int]] = {}
    with replacing(path) as stream:
        for value, tensor in tensors:
            key = place_key(tensor)
            if key not in places:
                padding = b"\0" * (-position % _PAGE_BYTES if tensor.nbytes >= _LARGE_BYTES else 0)
                start = position + len(padding)
                for piece in chain((padding,), pieces(tensor)):
                    position += stream.write(piece)
                    if tell:
                        tell(piece)
                places[key] = (start, position - start)
            start, length = places[key]
            value.const_value = placed(tensor, path, start, length)


def placed(tensor: TensorProtocol, file: Path, offset: int | None, length: int | None) -> ir.ExternalTensor:
    """A tensor of the same type, shape and name, whose bytes lie in a file."""
    shape, name = ir.Shape(tensor.shape.numpy()), tensor.name or ""
    return ir.ExternalTensor(file.name, offset, length, tensor.dtype, shape=shape, name=name, base_dir=file.parent)


def pieces(tensor: TensorProtocol) -> Iterator[bytes]:
    """The tensor's bytes as ONNX stores them, little-endian; a file is read in pieces, not mapped into memory."""
    if not isinstance(tensor, ir.ExternalTensor):
        yield tensor.tobytes()
        return
    left = tensor.nbytes
    with open(tensor.path, "rb") as stream:
        stream.seek(tensor.offset or 0)
        while left:
            piece = stream.read(min(left, _PIECE_BYTES))
            if not piece:
                raise EOFError(f"{tensor.path} ends before tensor {tensor.name}")
            left -= len(piece)
            yield piece


def place_key(tensor: TensorProtocol) -> tuple[str, int, int] | int:
    """A key of the place where the bytes of a tensor lie. Tensors that share bytes have one key."""
    if isinstance(tensor, ir.ExternalTensor):
        return (str(tensor.path), tensor.offset or 0, tensor.nbytes)
    held = tensor.raw if isinstance(tensor, ir.Tensor) else None
    if isinstance(held, np.ndarray) and held.flags.c_contiguous and tensor.dtype.bitwidth >= 8:
        return ("memory", held.ctypes.data, tensor.nbytes)
    return id(tensor)


def bytes_key(tensor: TensorProtocol) -> str:
    """A digest of a tensor's type, shape and bytes: equal for equal tensors."""
    digest = hashlib.sha256(f"{tensor.dtype}{tensor.shape.numpy()}".encode())
    for piece in pieces(tensor):
        digest.update(piece)
    return digest.hexdigest()


def keep_by_digest(temporary: Path, final: Path) -> None:
    """Give a file the name that its content has; one of that name is the same, and may be open in another process.

    Windows replaces no file that is open.
    """
    try:
        os.replace(temporary, final)
    except PermissionError:
        if not final.is_file():
            raise


@contextmanager
def unnamed_file(store: Path) -> Iterator[Path]:
    """Gives a file of the store for content that names it. The file is removed unless it gets its name."""
    with tempfile.NamedTemporaryFile(dir=store, suffix=".tmp", delete=False) as stream:
        temporary = Path(stream.name)
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that appears under its name only when it is whole."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")  # threads may write the same file
    try:
        with temporary.open("wb") as stream:
            yield stream
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_digest(path: Path) -> str:
    """Sha256 of a file's bytes, hex; reads in pieces, so a mapped file costs no memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
