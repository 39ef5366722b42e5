"""Whether a graph is valid, by the checker of onnx, and whether the files that it refers to may be read."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
import onnx_ir
from onnx.external_data_helper import _get_all_tensors, uses_external_data

from optim.errors import OptimError
from optim.onnx.adapter_inputs import SUPPLIED
from optim.onnx.context_files import context_files
from optim.onnx.external_data import external_tensors, is_file, place_of, tensor_bytes
from optim.onnx.operators import is_before_onnx, walk_nodes

_ASIDE = "optim.put-aside"

_FLOAT6 = {int(kind) for kind in onnx_ir.DataType if kind.name.startswith("FLOAT6")}
"""Types that are packed in more than one way."""


def check_graph(skeleton: onnx.ModelProto, path: Path) -> None:
    """Refuses an invalid graph.

    The checker of onnx gets a copy without weights, as a file, so it takes models above 2 GiB too. Three things pass
    although the checker refuses them, because runtimes accept them: inputs of unknown rank, outputs of unknown rank,
    and operators that only onnxruntime has in the standard domain.

    Args:
        skeleton: graph from ``optim.onnx.skeleton.read_skeleton``; stays unchanged.
        path: name of the model in messages.

    Raises:
        OptimError[invalid-graph]: the checker refuses the graph.
        OptimError[ir-too-new]: the IR version is newer than onnx knows.
    """
    if not skeleton.graph.output:
        raise invalid_graph(path, "it has no outputs")
    for tensor in _get_all_tensors(skeleton):
        _require_size(tensor, path)
    standin = onnx.ModelProto()
    standin.CopyFrom(skeleton)
    for tensor in external_tensors(standin):
        del tensor.external_data[:]
        tensor.external_data.add(key="location", value="weights")
    for value in (*standin.graph.input, *standin.graph.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    _put_aside_what_onnx_lacks(standin)
    with tempfile.TemporaryDirectory(prefix="optim-check-") as folder:
        file = Path(folder) / "graph.onnx"
        file.write_bytes(standin.SerializeToString())
        (file.parent / "weights").touch()
        try:
            onnx.checker.check_model(file)
        except onnx.checker.ValidationError as error:
            raise invalid_graph(path, str(error)) from error


def find_contradiction(skeleton: onnx.ModelProto, path: Path) -> OptimError | None:
    """What inference of types and shapes says against a graph that the checker accepts; None where it says nothing.

    Runtimes accept some graphs that it does not, so ask it about one that a runtime has refused.
    """
    try:
        onnx.shape_inference.infer_shapes(skeleton, check_type=True, strict_mode=True)
    except (onnx.shape_inference.InferenceError, ValueError) as error:
        return invalid_graph(path, str(error))
    return None


def _put_aside_what_onnx_lacks(standin: onnx.ModelProto) -> None:
    """Give operators of onnxruntime that stand in the standard domain a domain that the checker does not know."""
    opset = next((entry.version for entry in standin.opset_import if entry.domain in ("", "ai.onnx")), 0)
    aside = [node for node in walk_nodes(standin) if is_before_onnx(node, opset)]
    for node in aside:
        node.domain = _ASIDE
    if aside:
        for part in (standin, *standin.functions):
            part.opset_import.add(domain=_ASIDE, version=1)


def _require_size(tensor: onnx.TensorProto, path: Path) -> None:
    """Refuse a tensor in the file with more or fewer bytes than its shape takes; the checker accepts too many."""
    place, taken = place_of(tensor), tensor_bytes(tensor)
    if uses_external_data(tensor):
        held = int(place.get("length", 0)) if place.get("location") == path.name else 0
    else:
        held = len(tensor.raw_data)
    if held and taken and held != taken and tensor.data_type not in _FLOAT6:
        shape = list(tensor.dims[:8]) if len(tensor.dims) <= 8 else f"of {len(tensor.dims)} dimensions"
        raise invalid_graph(path, f"tensor '{tensor.name}' has {held} bytes, and its shape {shape} takes {taken}")


def check_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Refuse a model, read from ``path``, whose external data cannot be, or must not be, read.

    Raises:
        OptimError[external-data-outside]: an absolute path, ``..``, or a symbolic link out of the folder.
        OptimError[external-data-missing]: no such file.
        OptimError[adapter-not-supplied]: weights of an adapter that sessions supply.
        OptimError[external-data-too-short]: it ends before the tensor does.
        OptimError[invalid-graph]: an entry makes no sense, or tells another length than the tensor's shape.
    """
    what = f"external data of {path} cannot be used"
    sizes: dict[str, int] = {}
    for tensor in external_tensors(model):
        entry = place_of(tensor)
        location = entry.get("location", "")
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
        if location not in sizes:
            _require_own(location, path, f"tensor '{tensor.name}' refers to '{location}'")
            sizes[location] = (path.parent / location).stat().st_size
        _check_extent(tensor, entry, sizes[location], path)


def check_context_files(model: onnx.ModelProto, path: Path) -> None:
    """Refuse a compiled model whose file is not there, or not in the folder of ``path``."""
    for name in context_files(model):
        _require_own(name, path, f"it refers to '{name}'", compiled=True)


def _require_own(location: str, path: Path, names: str, *, compiled: bool = False) -> None:
    """Refuse a file that is not there, or not in the folder of the model ``path``."""
    what = f"the compiled graph of {path} cannot be used" if compiled else f"external data of {path} cannot be used"
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
            "put the file beside the model and compile it there"
            if compiled
            else "put the data file beside the model and save the model with its plain name",
        )
    if not is_file(found):
        near = sorted(file.name for file in path.parent.iterdir() if file.is_file() and file != path)
        raise OptimError(
            "external-data-missing",
            what,
            f"{names}, which does not exist; {path.parent} has {', '.join(near[:8]) or 'nothing else'}",
            f"copy {location} into {path.parent}",
        )
    if location != path.name and not found.resolve().is_relative_to(folder):
        raise OptimError(
            "external-data-outside",
            what,
            f"{names}, a symbolic link to {found.resolve()}, outside the model's folder",
            f"cp -rL {path.parent} a-copy    # follows the links; then use a-copy/{path.name}",
        )


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


@contextmanager
def malformed_is_invalid(path: Path) -> Iterator[None]:
    """Turn what libraries raise over a file that makes no sense into one clear error.

    Such are text that is no UTF-8, types that do not exist, and values defined twice.
    """
    try:
        yield
    except (ValueError, TypeError, NotImplementedError, onnx_ir.serde.SerdeError) as error:
        raise OptimError(
            "invalid-graph",
            f"{path} cannot be read as a graph",
            _one_line(str(error.__cause__ or error)),
            "export the model again; if onnx.checker.check_model(path) finds nothing wrong, the fault is optim's: "
            "report it with the file",
        ) from error


def invalid_graph(path: Path, message: str) -> OptimError:
    """The error for an invalid graph, from the message of the checker."""
    cause = _one_line(message.split("==> Context:")[0])
    node = re.search(r"Bad node spec for node\. Name: (.*?) OpType: (\S*)", message)
    if node:
        cause += f" (at {node[2]} node '{node[1].strip()}')"
    too_new = "ir_version" in cause and "higher than the checker" in cause
    return OptimError(
        "ir-too-new" if too_new else "invalid-graph",
        f"{path} is not a valid ONNX model",
        cause or "it has no nodes",
        "save it with an older version (model.ir_version = 10), or install a newer onnx"
        if too_new
        else "export the model again; onnx.checker.check_model(path) shows the same problem",
    )


def _one_line(message: str) -> str:
    return re.sub(r"\s+", " ", message).strip()
