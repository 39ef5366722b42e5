"""Checks of external data, before anything is read: it exists, is long enough, and lies in the model's own folder."""

from __future__ import annotations

import math
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir as ir

from optim.errors import OptimError
from optim.model import Model
from optim.onnx.adapter_inputs import SUPPLIED
from optim.onnx.context_files import context_files
from optim.onnx.linked import external_tensors, linked_path, locations, place_of


def external_files(path: Path) -> list[str]:
    """Returns the files that a graph refers to, relative to its folder and sorted: weights and compiled graphs.

    It leaves out files of the user that the graph is linked to (``optim.onnx.linked``).
    """
    graph = onnx.load(path, load_external_data=False)
    own = {entry.value for entry in locations(graph) if linked_path(entry.value) is None}
    return sorted(own | set(context_files(graph)))


def check_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Refuse a model whose external data cannot be, or must not be, read.

    Args:
        model: as read from ``path``.
        path: external data is relative to its folder.

    Raises:
        OptimError[external-data-outside]: an absolute path, ``..``, or a symbolic link out of the folder.
        OptimError[external-data-missing]: no such file.
        OptimError[adapter-not-supplied]: weights of an adapter that sessions supply.
        OptimError[external-data-too-short]: it ends before the tensor does.
        OptimError[invalid-graph]: an entry makes no sense, or tells another length than the tensor's shape.
    """
    sizes: dict[str, int] = {}
    for tensor in external_tensors(model):
        entry = place_of(tensor)
        location = entry.get("location", "")
        if location not in sizes:
            sizes[location] = _locate(location, tensor, path).stat().st_size
        _check_extent(tensor, entry, sizes[location], path)


def tensor_bytes(tensor: onnx.TensorProto) -> int:
    """Size of a tensor's data by its type and shape, in bytes; 0 for strings."""
    dtype = ir.DataType(tensor.data_type)
    if dtype in (ir.DataType.STRING, ir.DataType.UNDEFINED):
        return 0
    elements: int = math.prod(tensor.dims)
    return math.ceil(elements * int(dtype.bitwidth) / 8)


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


def _locate(location: str, tensor: onnx.TensorProto, path: Path) -> Path:
    what = f"external data of {path} cannot be used"
    names = f"tensor '{tensor.name}' refers to '{location}'"
    if not location:
        raise OptimError(
            "invalid-graph", what, f"tensor '{tensor.name}' names no file for its data", "export the model again"
        )
    if location == SUPPLIED:
        raise OptimError.usage(
            "adapter-not-supplied",
            f"{path} cannot be read alone",
            f"it has no weights for '{tensor.name}': they come with its adapter when it is opened",
            f"optim.load('{path.parent}', adapter=FILE), or load.py there; for another model run its source again",
        )
    folder, found = path.parent.resolve(), path.parent / location
    spelled_outside = (
        PurePosixPath(location).is_absolute()
        or PureWindowsPath(location).is_absolute()
        or ".." in PurePosixPath(location.replace("\\", "/")).parts
    )
    if spelled_outside:
        raise OptimError(
            "external-data-outside",
            what,
            f"{names}, which is not in the model's own folder",
            "put the data file beside the model and save the model with a plain file name as its location",
        )
    if not is_file(found):
        near = sorted(file.name for file in path.parent.iterdir() if file.is_file() and file != path)
        cause = f"{names}, which does not exist; {path.parent} has {', '.join(near[:8]) or 'nothing else'}"
        raise OptimError("external-data-missing", what, cause, f"copy {location} into {path.parent}")
    if location != path.name and not found.resolve().is_relative_to(folder):
        raise OptimError(
            "external-data-outside",
            what,
            f"{names}, a symbolic link to {found.resolve()}, outside the model's folder",
            f"cp -rL {path.parent} a-copy    # follows the links; then use a-copy/{path.name}",
        )
    return found


def _check_extent(tensor: onnx.TensorProto, entry: dict[str, str], available: int, path: Path) -> None:
    needed = tensor_bytes(tensor)
    what = f"tensor '{tensor.name}' of {path} cannot be read"
    try:
        offset, length = int(entry.get("offset", "0")), int(entry.get("length", str(needed)))
    except ValueError as error:
        raise OptimError(
            "invalid-graph", what, f"offset or length is not a number: {entry}", "export the model again"
        ) from error
    if offset < 0 or length != needed:
        cause = f"its shape {list(tensor.dims)} takes {needed} bytes, but its data has {length} at offset {offset}"
        raise OptimError("invalid-graph", what, cause, "export the model again")
    if offset + length > available:
        raise OptimError(
            "external-data-too-short",
            what,
            f"it is at bytes {offset} to {offset + length} of {entry['location']}, which has {available}",
            f"copy or download {entry['location']} again",
        )
