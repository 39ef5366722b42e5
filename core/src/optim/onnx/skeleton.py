"""A graph without its weights, read by streaming.

An ONNX file is one protobuf message, and protobuf libraries read it whole: a file with 500 MB of weights inside costs
1 GB before the first node is seen. Here the wire format (protobuf.dev/programming-guides/encoding) is walked instead:
each tensor of at least 1 KiB is passed over and becomes *external data that lies in the model file itself*, which
ONNX allows (a location, an offset and a length).

    TensorProto(dims, data_type, raw_data=<500 MB>)
    TensorProto(dims, data_type, external_data={location: "model.onnx", offset: 1234, length: 500000000})
"""

from __future__ import annotations

import os
import zipfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import onnx
from google.protobuf.message import DecodeError

from optim.errors import OptimError
from optim.onnx.files import EXTERNAL_FROM_BYTES


@dataclass(frozen=True)
class _Kind:
    """A message type: the fields that may hold a large tensor somewhere inside, and those behind which none follows."""

    fields: dict[int, _Kind] = field(default_factory=dict)
    data: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()


_TENSOR = _Kind(data=frozenset({4, 9, 10}))
"""Fields float_data, raw_data and double_data: packed floats are the same bytes as raw data."""
_ATTRIBUTE = _Kind({5: _TENSOR, 10: _TENSOR}, last=frozenset({7, 8, 9}))
"""An attribute with floats, ints or strings has nothing else. Each number is a field of its own: a forest of decision
trees has a million, which are not walked one by one."""
_NODE = _Kind({5: _ATTRIBUTE})
_GRAPH = _Kind({1: _NODE, 5: _TENSOR})
_ATTRIBUTE.fields.update({6: _GRAPH, 11: _GRAPH})
_MODEL = _Kind({7: _GRAPH})
_MODEL_FIELDS = frozenset(onnx.ModelProto.DESCRIPTOR.fields_by_number)

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class _NotProtobufError(Exception):
    """These bytes are not this message."""


class _TruncatedError(Exception):
    """The file ends inside a field."""


def read_skeleton(path: Path) -> onnx.ModelProto:
    """The model of a file with every tensor of at least 1 KiB as external data, in the file itself if need be.

    Memory: a few times the graph without its weights; works on files of any size.

    Raises:
        OptimError[model-truncated]: the file ends inside a field.
        OptimError[not-onnx]: it is something else.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            encoded = _message(stream, size, _MODEL, path.name)
        model: onnx.ModelProto = onnx.ModelProto.FromString(encoded)
    except _TruncatedError as error:
        raise OptimError(
            "model-truncated",
            f"{path} is cut off",
            str(error),
            "copy or download the file again, and compare its size or checksum with the original's",
        ) from error
    except (_NotProtobufError, DecodeError) as error:
        raise not_onnx(path) from error
    if not model.HasField("graph"):
        raise not_onnx(path)
    return model


def not_onnx(path: Path) -> OptimError:
    """The error for a file that is something else, saying what it looks like."""
    with path.open("rb") as stream:
        head = stream.read(64)
    cause, fix = "it does not read as an ONNX model (protobuf)", "give a file written by onnx.save or torch.onnx.export"
    if head.startswith(b"version https://git-lfs"):
        cause, fix = "it is a Git LFS pointer, not the model itself", f"git lfs pull --include {path.name}"
    elif head.startswith(b"PK\x03\x04"):
        cause, fix = _archive(path)
    elif head[4:8] == b"ORTM":
        cause, fix = "it is in onnxruntime's own format (ORT format)", "give the .onnx file that it was converted from"
    elif head[8:9] == b"{" and not head.startswith(b"\x08"):
        cause, fix = "it is a safetensors file: weights without a graph", "export the model to ONNX first"
    elif head.lstrip().lower().startswith((b"<!doctype", b"<html")):
        cause, fix = "it is a web page, perhaps a failed download", "download the model again"
    return OptimError("not-onnx", f"{path} is not an ONNX model", cause, fix)


def _archive(path: Path) -> tuple[str, str]:
    """What a zip archive is, and what to do with it."""
    names = []
    with suppress(zipfile.BadZipFile, OSError, NotImplementedError), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if models := [name for name in names if name.endswith(".onnx")]:
        return f"it is a zip archive that holds {models[0]!a}", f"python -m zipfile -e {path.name} unpacked"
    if names and all(name.endswith(".npy") for name in names):
        return "it is an archive of arrays, such as input samples", f"optim run model.onnx --data {path.name}"
    return "it is a zip archive, perhaps a torch checkpoint", "export the model with torch.onnx.export first"


def _message(stream: BinaryIO, end: int, kind: _Kind, location: str) -> bytes:
    """One message, re-encoded without its large data."""
    pieces: list[bytes] = []
    place: tuple[int, int] | None = None
    while (start := stream.tell()) < end:
        key = _read_varint(stream)
        number, wire = key >> 3, key & 7
        if number == 0 or (kind is _MODEL and number not in _MODEL_FIELDS):
            raise _NotProtobufError(f"field {number}")
        if number in kind.last:
            stream.seek(start)
            pieces.append(stream.read(end - start))
            break
        length = _field_length(stream, wire)
        here = stream.tell()
        if here + length > end:
            if kind is not _MODEL:
                raise _NotProtobufError("a field is longer than the message around it")
            raise _TruncatedError(f"it has {end} bytes, and needs at least {here + length}")
        large = wire == _BYTES and length >= EXTERNAL_FROM_BYTES
        if large and number in kind.data:
            if place is not None:
                raise _NotProtobufError("a tensor holds its data twice")
            place = (here, length)
            stream.seek(here + length)
        elif large and number in kind.fields:
            body = _message(stream, here + length, kind.fields[number], location)
            pieces += (_varint(key), _varint(len(body)), body)
        else:
            stream.seek(start)
            pieces.append(stream.read(here + length - start))
    if place is not None:
        pieces.append(_external_data(location, *place))
    return b"".join(pieces)


def _field_length(stream: BinaryIO, wire: int) -> int:
    """Bytes of a field's content, with ``stream`` at its beginning (behind it for a varint)."""
    if wire == _BYTES:
        return _read_varint(stream)
    if wire == _VARINT:
        _read_varint(stream)
        return 0
    if wire in (_FIXED32, _FIXED64):
        return 4 if wire == _FIXED32 else 8
    raise _NotProtobufError(f"wire type {wire}")


def _external_data(location: str, offset: int, length: int) -> bytes:
    tensor = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        tensor.external_data.add(key=key, value=str(value))
    return bytes(tensor.SerializeToString())


def _read_varint(stream: BinaryIO) -> int:
    result = shift = 0
    while True:
        byte = stream.read(1)
        if not byte:
            raise _TruncatedError(f"it ends inside a number at byte {stream.tell()}")
        result |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return result
        shift += 7
        if shift > 63:
            raise _NotProtobufError("a number of more than 64 bits")


def _varint(value: int) -> bytes:
    pieces = bytearray()
    while value >= 0x80:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    pieces.append(value)
    return bytes(pieces)
