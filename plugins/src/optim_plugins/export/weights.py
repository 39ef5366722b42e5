"""Where the tensors of an exported graph lie in the user's safetensors files.

    initializer w [4096, 1024], mapped into memory from model.safetensors at byte 8192
        -> read from the file when the graph is written: no weight passes through memory but the one being written
        -> or, linked: external data {location: model.safetensors, offset: 8192, length: 16777216}

    initializer w' [1024, 4096], the same bytes seen transposed (an exporter folds the Transpose of a linear layer)
        -> read so; where w is there too (tied embeddings), and wherever it is linked: Transpose(w) = w'

A tensor is found by its address: the operating system tells which file is mapped there (Linux). Elsewhere, and where a
tensor was copied on its way, it is found by its bytes. A pass may have changed a mapped tensor in place: its address
stays, and the file does not have it. So its bytes are compared where the system says that any page there was written.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from optim.engine.export import EXTERNAL_FROM_BYTES, link

_LEAST_LINKED_BYTES = EXTERNAL_FROM_BYTES
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A tensor in a file.

    Attributes:
        file: that holds it.
        offset: in bytes.
        length: in bytes.
        shape: of the tensor in the file.
        transposed: the graph sees it with its two dimensions swapped.
    """

    file: Path
    offset: int
    length: int
    shape: tuple[int, ...]
    transposed: bool = False


def unmap_weights(graph: ir.Model, files: Sequence[Path]) -> int:
    """Let initializers that are mapped from files be read from there when they are written.

    Args:
        graph: changed in place.
        files: that the module's weights are mapped from.

    Returns:
        Bytes that need not pass through this process's mapped memory.
    """
    lookup = _AddressLookup(files)
    first: dict[tuple[Path, int], tuple[ir.Value, FilePlace]] = {}
    for value in list(graph.graph.initializers.values()):
        tensor = value.const_value
        place = lookup.place(tensor) if _is_large(tensor) else None
        if place is None or tensor is None:
            continue
        owner, known = first.setdefault((place.file, place.offset), (value, place))
        if owner is value:
            value.const_value = _read_when_needed(tensor, place)
        elif known == place:
            value.const_value = owner.const_value
        elif known.shape == place.shape:
            _compute(graph, value, owner)
    return sum(place.length for _, place in first.values())


def link_weights(graph: ir.Model, files: Sequence[Path]) -> tuple[int, int]:
    """Point initializers into the files they come from.

    Args:
        graph: changed in place; a transposed weight gets a Transpose node.
        files: safetensors files with the weights.

    Returns:
        Bytes linked, and bytes of large tensors that are in none of the files and have to be written.
    """
    lookup, by_bytes = _AddressLookup(files), _ByteLookup(files)
    linked = left = 0
    for value in list(graph.graph.initializers.values()):
        tensor = value.const_value
        if not _is_large(tensor):
            continue
        assert tensor is not None
        place = lookup.place(tensor) or by_bytes.place(tensor)
        if place is None:
            left += tensor.nbytes
            continue
        _link(graph, value, tensor, place)
        linked += place.length
    return linked, left


def _link(graph: ir.Model, value: ir.Value, tensor: ir.TensorProtocol, place: FilePlace) -> None:
    name, file = value.name or "", place.file.resolve()
    external = link(file, place.offset, place.length, tensor.dtype, ir.Shape(place.shape), name)
    if not place.transposed:
        value.const_value = external
        return
    graph.graph.initializers.pop(name)
    stored = ir.Value(
        name=f"{name}.stored", type=ir.TensorType(tensor.dtype), shape=ir.Shape(place.shape), const_value=external
    )
    external.name = stored.name or ""
    graph.graph.register_initializer(stored)
    _compute(graph, value, stored)


def _compute(graph: ir.Model, value: ir.Value, stored: ir.Value) -> None:
    """Make ``value`` the transposition of the initializer ``stored`` instead of one of its own."""
    graph.graph.initializers.pop(value.name or "", None)
    value.const_value = None
    perm = [ir.AttrInt64s("perm", [1, 0])]
    node = ir.Node("", "Transpose", [stored], perm, outputs=[value], name=f"{value.name}.transpose")
    graph.graph.insert_before(graph.graph[0], node)


@dataclass(slots=True)
class _Region:
    """A part of a file that is mapped into memory.

    Attributes:
        start: its first address.
        end: the address behind it.
        offset: of the part in the file.
        file: that is mapped.
        may_differ: whether pages of it were written, or the system does not tell.
    """

    start: int
    end: int
    offset: int
    file: Path
    may_differ: bool = True


_WRITTEN = ("Anonymous:", "Swap:")
"""Written pages of a file that is mapped for this process alone are the process's own."""


def _mapped_regions(files: Sequence[Path]) -> list[_Region]:
    """Where files are mapped; empty where the system does not tell."""
    wanted = {str(file.resolve()): file for file in files}
    regions: list[_Region] = []
    region: _Region | None = None
    smaps = Path("/proc/self/smaps")
    for line in smaps.read_text().splitlines() if smaps.exists() else ():
        fields = line.split(maxsplit=5)
        if not fields[0].endswith(":"):
            region = None
            if len(fields) == 6 and fields[5] in wanted:
                start, end = (int(number, 16) for number in fields[0].split("-"))
                region = _Region(start, end, int(fields[2], 16), wanted[fields[5]])
                regions.append(region)
        elif region is not None and fields[0] in _WRITTEN:
            written = fields[1] != "0"
            region.may_differ = written or (fields[0] != _WRITTEN[0] and region.may_differ)
    return regions


class _AddressLookup:
    """Which file is mapped at an address; finds nothing where the system does not tell."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._regions = _mapped_regions(files)

    def place(self, tensor: ir.TensorProtocol | None) -> FilePlace | None:
        if tensor is None or not self._regions or isinstance(tensor, ir.ExternalTensor):
            return None
        seen = _seen(tensor)
        if seen is None:
            return None
        address, shape, transposed = seen
        for one in self._regions:
            if one.start <= address and address + tensor.nbytes <= one.end:
                offset = one.offset + address - one.start
                place = FilePlace(one.file, offset, tensor.nbytes, shape, transposed)
                return place if not one.may_differ or _is_in_file(tensor, place) else None
        return None


def _is_in_file(tensor: ir.TensorProtocol, place: FilePlace) -> bool:
    """Whether a file has the bytes that a tensor has in memory."""
    array = tensor.numpy()
    held = (array.T if place.transposed else array).reshape(-1).view(np.uint8)
    with place.file.open("rb") as stream:
        stream.seek(place.offset)
        pieces = (held[start : start + _PIECE_BYTES].tobytes() for start in range(0, held.size, _PIECE_BYTES))
        return all(stream.read(len(piece)) == piece for piece in pieces)


def _seen(tensor: ir.TensorProtocol) -> tuple[int, tuple[int, ...], bool] | None:
    """Address and shape of a tensor's bytes as they lie in memory, and whether the tensor is their transposition."""
    array = tensor.numpy()
    address = int(array.__array_interface__["data"][0])
    if array.flags.c_contiguous:
        return address, tuple(array.shape), False
    if array.ndim == 2 and array.T.flags.c_contiguous:
        return address, tuple(array.T.shape), True
    return None


class _ByteLookup:
    """Which tensor of the files has the same bytes; each file is read once, when first needed."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._known: Mapping[tuple[int, str], FilePlace] | None = None

    def place(self, tensor: ir.TensorProtocol) -> FilePlace | None:
        if self._known is None:
            self._known = {(place.length, _digest_of(place)): place for place in _stored(self._files)}
        array = np.asarray(tensor.numpy())
        if found := self._known.get((tensor.nbytes, _digest(array))):
            return FilePlace(found.file, found.offset, found.length, tuple(array.shape))
        if array.ndim == 2 and (found := self._known.get((tensor.nbytes, _digest(array.T)))):
            return FilePlace(found.file, found.offset, found.length, tuple(array.T.shape), transposed=True)
        return None


def _stored(files: Sequence[Path]) -> Iterator[FilePlace]:
    for file in files:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            header: dict[str, Any] = json.loads(stream.read(length))
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                yield FilePlace(file, 8 + length + begin, end - begin, tuple(entry["shape"]))


def _digest_of(place: FilePlace) -> str:
    return hashlib.sha256(np.fromfile(place.file, np.uint8, place.length, offset=place.offset).data).hexdigest()


def _digest(array: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).hexdigest()


def _read_when_needed(tensor: ir.TensorProtocol, place: FilePlace) -> ir.LazyTensor:
    dtype, name = tensor.dtype, tensor.name

    def read() -> ir.Tensor[Any]:
        raw = np.fromfile(place.file, np.uint8, place.length, offset=place.offset)
        array = raw.view(dtype.numpy()).reshape(place.shape)
        return ir.Tensor(np.ascontiguousarray(array.T) if place.transposed else array, dtype=dtype, name=name)

    evaluate: Callable[[], ir.Tensor[Any]] = read
    return ir.LazyTensor(evaluate, dtype=dtype, shape=ir.Shape(list(tensor.shape)), name=name)  # type: ignore[arg-type]


def _is_large(tensor: ir.TensorProtocol | None) -> bool:
    return tensor is not None and tensor.dtype != ir.DataType.STRING and tensor.nbytes >= _LEAST_LINKED_BYTES
