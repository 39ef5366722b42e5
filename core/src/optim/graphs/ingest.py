"""The way a user's file comes into the store: checked, brought to external data, by streaming.

Afterwards every tensor of at least 1 KiB is an initializer that lies in a data file of the store, wherever it was
before: inside the model file, in a data file beside it (of any format: a ``.safetensors`` file too), or in a
Constant node. Nothing is believed that the file says about places: data is read from its own folder only.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from optim.errors import OptimError
from optim.graphs.external_data import check_external_data
from optim.graphs.files import EXTERNAL_FROM_BYTES, save_in_store
from optim.graphs.limits import check_operators
from optim.graphs.skeleton import read_skeleton
from optim.model import Model

if TYPE_CHECKING:
    from onnx_ir import TensorProtocol


def ingest(path: Path, store: Path) -> Model:
    """Bring a model file into the store.

    Args:
        path: an ``.onnx`` file, its external data beside it or in folders below.
        store: folder of the store; the file itself is left alone.

    Returns:
        The model in the store. Peak memory is a few times the graph without its weights, whatever their size.

    Raises:
        OptimError: model-missing, model-is-a-folder, model-unreadable, model-empty, model-truncated, not-onnx,
            invalid-graph, unknown-operator, opset-too-new, ir-too-new, external-data-missing,
            external-data-outside, external-data-too-short.
    """
    check_file(path)
    skeleton = read_skeleton(path)
    check_external_data(skeleton, path)
    check_operators(skeleton, path)
    _check_graph(skeleton, path)
    graph = _to_ir(skeleton, path)
    del skeleton
    LiftConstantsToInitializersPass(size_limit=EXTERNAL_FROM_BYTES // 8)(graph)
    _embed_attributes(graph)
    return save_in_store(graph, store)


def check_file(path: Path) -> None:
    """Refuse a path that is no readable, non-empty file, saying what there is instead."""
    if path.is_dir():
        inside = sorted(found.name for found in path.glob("*.onnx"))
        fix = f"name the file: {path / inside[0]}" if inside else "give an .onnx file"
        cause = f"it holds {', '.join(inside)}" if inside else "it holds no .onnx file"
        raise OptimError("model-is-a-folder", f"{path} is a folder, not a model", cause, fix)
    if not path.exists():
        near = sorted(found.name for found in path.parent.glob("*.onnx")) if path.parent.is_dir() else []
        cause = f"{path.parent} holds {', '.join(near[:8])}" if near else f"there is no .onnx file in {path.parent}"
        raise OptimError("model-missing", f"there is no file {path}", cause, "check the path")
    try:
        with path.open("rb") as stream:
            empty = not stream.read(1)
    except OSError as error:
        raise OptimError(
            "model-unreadable", f"{path} cannot be read", str(error.strerror), f"chmod u+r {path}"
        ) from error
    if empty:
        raise OptimError("model-empty", f"{path} is empty", "it has 0 bytes", "copy or download the file again")


def _check_graph(skeleton: onnx.ModelProto, path: Path) -> None:
    """Run the checker of onnx, by path: it reads no external data, and models above 2 GiB pass through it too."""
    standin = onnx.ModelProto()
    standin.CopyFrom(skeleton)
    for tensor in onnx.external_data_helper._get_all_tensors(standin):
        if onnx.external_data_helper.uses_external_data(tensor):
            del tensor.external_data[:]
            tensor.external_data.add(key="location", value="weights")
    with tempfile.TemporaryDirectory(prefix="optim-check-") as folder:
        file = Path(folder) / "graph.onnx"
        file.write_bytes(standin.SerializeToString())
        (file.parent / "weights").touch()
        try:
            onnx.checker.check_model(file)
        except onnx.checker.ValidationError as error:
            raise _invalid(path, error) from error


def _to_ir(skeleton: onnx.ModelProto, path: Path) -> ir.Model:
    try:
        graph = ir.serde.deserialize_model(skeleton)
    except (ir.serde.SerdeError, ValueError, TypeError) as error:
        raise _invalid(path, error) from error
    ir.external_data.set_base_dir(graph.graph, path.parent)
    return graph


def _embed_attributes(graph: ir.Model) -> None:
    """Tensors in attributes that are no initializers must lie in the graph: runtimes look for them nowhere else."""
    for node in graph.graph.all_nodes():
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
                node.attributes[name] = ir.AttrTensor(name, _embedded(attribute.value))
            elif attribute.type == ir.AttributeType.TENSORS:
                tensors = [_embedded(t) if isinstance(t, ir.ExternalTensor) else t for t in attribute.value]
                node.attributes[name] = ir.AttrTensors(name, tensors)


def _embedded(tensor: ir.ExternalTensor) -> TensorProtocol:
    """A copy in memory, read without onnx-ir's own reader, which refuses hard links."""
    with open(tensor.path, "rb") as stream:
        stream.seek(tensor.offset or 0)
        data = stream.read(tensor.nbytes)
    proto = onnx.TensorProto(data_type=tensor.dtype.value, dims=list(tensor.shape.numpy()), raw_data=data)
    return ir.Tensor(onnx.numpy_helper.to_array(proto), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)


def _invalid(path: Path, error: Exception) -> OptimError:
    text = re.sub(r"\s+", " ", str(error).split("==> Context:")[0]).strip()
    node = re.search(r"Bad node spec for node\. Name: (.*?) OpType: (\S*)", str(error))
    if node:
        text += f" (at {node.group(2)} node '{node.group(1).strip()}')"
    if isinstance(error, ir.serde.SerdeError) and error.__cause__ is not None:
        text = str(error.__cause__)
    reference = "invalid-graph"
    if "ir_version" in text and "higher than the checker" in text:
        reference = "ir-too-new"
    return OptimError(
        reference, f"{path} is not a valid ONNX model", text or type(error).__name__,
        "export the model again; onnx.checker.check_model(path) shows the same problem",
    )  # fmt: skip
