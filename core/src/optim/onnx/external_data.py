"""External data of a graph: where it lies, and the user's own weight files that a graph of the store may be linked to.

``--weights link`` has graphs of the store point into such files. ONNX lets a graph refer to data in its own folder and
below, and the store is neither. So in the store such a tensor says where its file really is, in a form that no library
takes for a path. It is resolved when a graph is read, opened or delivered, and the file itself is never written, moved
or deleted.

    external_data {location: "linked:/home/me/llama/model.safetensors", offset: 8192, length: 16777216}

onnxruntime opens it from memory: with the folder of external data set to the root of the file system, every file has
a relative path.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
import onnx_ir as ir
from onnx.external_data_helper import _get_all_tensors, uses_external_data

from optim.errors import OptimError
from optim.model import Model
from optim.onnx.context_files import context_files

PREFIX = "linked:"
_MARK = PREFIX.encode()
_STORED = re.compile(r"[0-9a-f]{64}\.onnx|\.[0-9a-f]{32}\.onnx\.tmp")
"""A model of the store, or one that is saved for measuring."""

FOLDER_CONFIG = "session.model_external_initializers_file_folder_path"


def external_files(path: Path) -> list[str]:
    """Returns the files that a graph refers to, relative to its folder and sorted: weights and compiled graphs.

    It leaves out files of the user that the graph is linked to (``--weights link``).
    """
    graph = onnx.load(path, load_external_data=False)
    own = {entry.value for entry in locations(graph) if linked_path(entry.value) is None}
    return sorted(own | set(context_files(graph)))


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Size of a tensor's data by its type and shape, in bytes; 0 for strings, and for a type that does not exist."""
    try:
        bits = ir.DataType(tensor.data_type).bitwidth
    except (TypeError, ValueError):
        return 0
    size: int = math.ceil(math.prod(tensor.dims) * bits / 8)
    return size


def model_size_bytes(model: Model) -> int:
    """Returns the size of the delivered model: its graph, and each weight that it uses once."""
    graph = onnx.load(model.path, load_external_data=False)
    total = model.path.stat().st_size
    total += sum((model.path.parent / location).stat().st_size for location in context_files(graph))
    lengths: dict[tuple[str, str], int] = {}
    for place in map(place_of, external_tensors(graph)):
        lengths.setdefault((place["location"], place.get("offset", "0")), int(place["length"]))
    return total + sum(lengths.values())


def is_file(path: Path) -> bool:
    """Returns whether a file is there; of a name that no file can have, no."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def external_tensors(graph: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yields the tensors whose data lies in a file, those of attributes and functions too."""
    return (tensor for tensor in _get_all_tensors(graph) if uses_external_data(tensor))


def place_of(tensor: onnx.TensorProto) -> dict[str, str]:
    """Returns what a tensor says of its file: ``location``, ``offset``, ``length``."""
    return {entry.key: entry.value for entry in tensor.external_data}


def locations(graph: onnx.ModelProto) -> Iterator[onnx.StringStringEntryProto]:
    """The entries of external data that say in which file a tensor lies."""
    for tensor in external_tensors(graph):
        yield from (entry for entry in tensor.external_data if entry.key == "location")


class LinkedTensor(ir.ExternalTensor):
    """A tensor in a file of the user's, its location relative to the root of the file system."""


def linked_path(location: str) -> Path | None:
    """The file that a location links to; None where it is a plain one."""
    return Path(location.removeprefix(PREFIX)) if location.startswith(PREFIX) else None


def linked_files(graph: onnx.ModelProto) -> set[Path]:
    """The user's files that a graph of the store points into."""
    found = (linked_path(entry.value) for entry in locations(graph))
    return {path for path in found if path is not None}


def is_linked(tensor: object) -> bool:
    """Returns whether a tensor lies in a file of the user's."""
    return isinstance(tensor, LinkedTensor)


def link(file: Path, offset: int, length: int, dtype: ir.DataType, shape: ir.Shape, name: str) -> LinkedTensor:
    """A tensor in a file of the user's."""
    root = _root(file)
    return LinkedTensor(
        os.path.relpath(file.resolve(), root), offset, length, dtype, shape=shape, name=name, base_dir=root
    )


def resolve(graph: ir.Model) -> None:
    """Let tensors of a graph that was read from the store find the user's files."""
    for part in graph.graphs():
        for value in part.initializers.values():
            if value.const_value is not None:
                value.const_value = resolved(value.const_value)


def resolved(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Returns the tensor itself, or the one in a file of the user's that a tensor of the store stands for."""
    path = linked_path(str(tensor.location)) if isinstance(tensor, ir.ExternalTensor) else None
    if path is None or not isinstance(tensor, ir.ExternalTensor):
        return tensor
    shape, offset, length = ir.Shape(tensor.shape.numpy()), tensor.offset or 0, tensor.length or 0
    return link(path, offset, length, tensor.dtype, shape, tensor.name or "")


def proto_for_store(graph: ir.Model) -> onnx.ModelProto:
    """Serializes a graph. Linked tensors say where their files are in the form of the store."""
    tensors = (value.const_value for part in graph.graphs() for value in part.initializers.values())
    linked = {str(one.location): f"{PREFIX}{one.path}" for one in tensors if isinstance(one, LinkedTensor)}
    proto = ir.serde.serialize_model(graph)
    for entry in locations(proto) if linked else ():
        entry.value = linked.get(entry.value, entry.value)
    return proto


def session_model(path: Path) -> tuple[bytes, str] | None:
    """A graph of the store as onnxruntime opens it from memory, and the folder of its data; None for a plain file."""
    if not _STORED.fullmatch(path.name):
        return None
    encoded = path.read_bytes()
    if _MARK not in encoded:
        return None
    graph = onnx.ModelProto.FromString(encoded)
    root = _root(path)
    for entry in locations(graph):
        file = linked_path(entry.value) or path.parent.resolve() / entry.value
        entry.value = _below(root, file)
    return graph.SerializeToString(), root


def _below(root: str, file: Path) -> str:
    try:
        return Path(os.path.relpath(file, root)).as_posix()
    except ValueError as error:  # Windows has a root for each drive
        raise OptimError.usage(
            "weights-on-another-drive",
            f"the graph cannot point into {file}",
            f"the cache is on {root}, and a graph and its weights must be on one drive",
            f"set OPTIM_CACHE_DIR to a folder on {file.drive or file.anchor}, or use --weights copy",
        ) from error


@contextmanager
def openable_file(path: Path) -> Iterator[Path]:
    """Gives a graph of the store as a file that other readers of ONNX open, inside the block.

    Args:
        path: file of the graph.

    Returns:
        The path itself, if readers open it. Else the path of a graph beside hard links to its data, because readers
            refuse symbolic links that lead out of a folder. On another file system the links are copies.
    """
    if session_model(path) is None:
        yield path
    else:
        # where the store looks for what killed jobs left
        with TemporaryDirectory(dir=path.parent.parent, prefix="scratch-") as folder:
            yield _with_data_beside(path, Path(folder))


def _with_data_beside(path: Path, folder: Path) -> Path:
    graph = onnx.ModelProto.FromString(path.read_bytes())
    names: dict[Path, str] = {}
    for entry in locations(graph):
        file = (linked_path(entry.value) or path.parent / entry.value).resolve()
        name = names.setdefault(file, f"{len(names)}.data")
        entry.value = name
        if not (folder / name).exists():
            try:
                (folder / name).hardlink_to(file)
            except OSError:
                shutil.copyfile(file, folder / name)
    made = folder / "model.onnx"
    made.write_bytes(graph.SerializeToString())
    return made


def _root(path: Path) -> str:
    return path.absolute().anchor or os.sep
