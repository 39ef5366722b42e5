"""Graphs and their weights on disk.

In the store every file is called by the sha256 of its bytes: ``<digest>.onnx`` for a graph, ``<digest>.data`` for
weights. All graphs lie side by side and refer to any number of data files there, so a pass that changes the graph
writes a graph, and a pass that changes tensors writes one new data file with only those. Nothing is linked: onnx
and onnx-ir refuse hard links and symbolic links as external data.
"""

from __future__ import annotations

import gc
import hashlib
import uuid
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError
from onnx_ir import TensorProtocol

from optim.decoders.conventions import PAST, name_shared_past, shares_past
from optim.model import Model, SessionConfig, TensorInfo
from optim.onnx.adapter_inputs import SUPPLIED, adapter_inputs_of, leave_to_sessions, name_adapter_inputs
from optim.onnx.context_files import ARTEFACT, ATTACHMENT, context_files, deliver_contexts, name_files, named_files
from optim.onnx.data_files import (
    bytes_key,
    keep_by_digest,
    pieces,
    place_key,
    placed,
    replacing,
    unnamed_file,
    write_tensors,
)
from optim.onnx.digests import model_digest
from optim.onnx.external_data import is_linked, linked_path, locations, proto_for_store, resolve

EXTERNAL_FROM_BYTES = 1024
"""Smaller tensors stay in the graph."""


def read_ir(path: Path) -> ir.Model:
    """Reads a graph as a new onnx-ir model. External weights are memory-mapped when they are used."""
    is_collecting = gc.isenabled()
    gc.disable()  # the collector takes 40 % of reading 10,000 nodes, all of which stay
    try:
        graph = ir.load(path)
        resolve(graph)
    finally:
        if is_collecting:
            gc.enable()
    return graph


def shared_ir(path: Path) -> ir.Model:
    """The last graph that was read so, where it is the same file as it was; nobody may change it."""
    found = path.stat()
    return _shared_ir(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1)
def _shared_ir(path: Path, modified_ns: int, size: int) -> ir.Model:
    return read_ir(path)


def describe_model(
    path: Path, *, session: SessionConfig | None = None, provenance: tuple[str, ...] = (), digest: str | None = None
) -> Model:
    """Makes the ``Model`` of a file on disk.

    It only reads the weights if there is no digest and the file is not in the store.

    Args:
        path: file of the graph, with its external data beside it.
        session: settings to open it with; by default none.
        provenance: steps that made the model, oldest first.
        digest: digest of graph and weights, if it is known.
    """
    proto = onnx.load(path, load_external_data=False)
    settings = session or SessionConfig()
    initializers = {tensor.name for tensor in proto.graph.initializer}
    return Model(
        path=path,
        digest=digest or model_digest(path, settings),
        inputs=tuple(TensorInfo.of(value) for value in proto.graph.input if value.name not in initializers),
        outputs=tuple(TensorInfo.of(value) for value in proto.graph.output),
        opset={"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in proto.opset_import},
        ir_version=proto.ir_version,
        session=settings,
        provenance=provenance,
        adapters=adapter_inputs_of(proto),
    )


def save_in_store(graph: ir.Model, store: Path, *, session: SessionConfig | None = None) -> Model:
    """Write a graph into the store; ``graph`` then refers to its weights there.

    Args:
        graph: changed in place: tensors of at least 1 KiB that do not lie in the store become external tensors
            in one new data file, smaller ones part of the graph.
        store: folder of the store.
        session: settings of the new model.
    """
    store.mkdir(parents=True, exist_ok=True)
    _externalize(graph, store)
    encoded = proto_for_store(graph).SerializeToString(deterministic=True)
    path = store / f"{hashlib.sha256(encoded).hexdigest()}.onnx"
    with replacing(path) as stream:  # also where there is one: it may have been damaged
        stream.write(encoded)
    return describe_model(path, session=session)


def save_for_measuring(graph: ir.Model, store: Path, *, session: SessionConfig | None = None) -> Model:
    """Writes a graph into the store for a model that is opened once and then deleted (``discard_measured``).

    Its files have random names, so that deleting them never removes a file of another model with the same bytes. The
    next clean-up deletes the files of a killed process. The digest is random.
    """
    name = f".{uuid.uuid4().hex}"
    _externalize(graph, store, f"{name}.data.tmp")
    path = store / f"{name}.onnx.tmp"
    encoded = proto_for_store(graph).SerializeToString()
    with replacing(path) as stream:
        stream.write(encoded)
    return describe_model(path, session=session, digest=name[1:])


def discard_measured(model: Model) -> None:
    """Deletes the files of ``save_for_measuring``. Leaves a model of the store alone."""
    for suffix in (".onnx.tmp", ".data.tmp"):
        (model.path.parent / f".{model.digest}{suffix}").unlink(missing_ok=True)


def read_like(path: Path, like: Model, artefacts: Mapping[str, Path | str] | None = None) -> ir.Model:
    """A graph whose large tensors are those of ``like`` where the bytes are equal, with these artefacts and no others.

    A library may have written on what the graph that it was given says of its own. Metadata, attachments, adapter
    inputs and a past in one buffer are said anew: a library may have dropped what is said of them.
    """
    graph = read_ir(path)
    said = {entry.key: entry.value for entry in onnx.load(like.path, load_external_data=False).metadata_props}
    for key, text in said.items():
        if not key.startswith("optim."):  # such as the characters that a reader of texts knows
            graph.metadata_props.setdefault(key, text)
    name_files(graph, ARTEFACT, artefacts or {})
    name_files(graph, ATTACHMENT, named_files(like.path, ATTACHMENT))
    name_adapter_inputs(graph, like.adapters)
    graph.metadata_props.pop(PAST, None)
    if shares_past(said):
        name_shared_past(graph)
    known = {bytes_key(tensor): tensor for _, tensor in _large_tensors(like.ir())}
    for value, tensor in _large_tensors(graph):
        value.const_value = known.get(bytes_key(tensor), tensor)
    return graph


def deliver_model(
    model: Model,
    folder: Path,
    *,
    name: str = "model.onnx",
    size_threshold: int = EXTERNAL_FROM_BYTES,
    one_file: bool = True,
) -> list[Path]:
    """Writes a model for deployment: the graph, and ``NAME.data`` beside it for large weights.

    Args:
        model: a model in the store.
        folder: folder to write into. The call makes it.
        name: name of the graph's file.
        size_threshold: bytes from which a weight is outside of the graph.
        one_file: whether all weights are in one file. If not, each has a file, ``NAME.data.0`` and so on.

    Returns:
        The files written. The same model gives the same bytes.
    """
    folder.mkdir(parents=True, exist_ok=True)
    graph = model.ir()
    leave_to_sessions(graph)
    graph_path, data_path = folder / name, folder / f"{name}.data"
    tensors = list(_large_tensors(graph, size_threshold))
    for value, tensor in _tensors(graph):
        if tensor.nbytes < size_threshold and isinstance(tensor, ir.ExternalTensor):
            value.const_value = embedded_tensor(tensor)
    written, groups = [graph_path], dict[object, list[tuple[ir.Value, TensorProtocol]]]()
    for one in tensors:
        groups.setdefault(None if one_file else place_key(one[1]), []).append(one)
    for number, group in enumerate(groups.values()):
        written.append(data_path if one_file else folder / f"{data_path.name}.{number}")
        write_tensors(group, written[-1])
    written += deliver_contexts(graph, model.path.parent, folder, name)
    with replacing(graph_path) as stream:
        stream.write(ir.serde.serialize_model(graph).SerializeToString(deterministic=True))
    return written


def deliver_linked(model: Model, folder: Path, *, name: str) -> None:
    """Write a model that points into weight files of the user's in ``folder`` or below; what is in none is copied."""
    graph = model.ir()
    rest = [(value, tensor) for value, tensor in _large_tensors(graph) if not is_linked(tensor)]
    if rest:
        write_tensors(rest, folder / f"{name}.data")
    proto = proto_for_store(graph)
    for entry in locations(proto):
        if (path := linked_path(entry.value)) is not None:
            entry.value = path.resolve().relative_to(folder.resolve()).as_posix()
    with replacing(folder / name) as stream:
        stream.write(proto.SerializeToString(deterministic=True))


def embedded_tensor(tensor: ir.ExternalTensor) -> TensorProtocol:
    """Copies a tensor into memory, without onnx-ir's own reader, which refuses hard links."""
    data = b"".join(pieces(tensor))
    proto = onnx.TensorProto(data_type=tensor.dtype.value, dims=list(tensor.shape.numpy()), raw_data=data)
    return ir.Tensor(onnx.numpy_helper.to_array(proto), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name)


def is_whole(path: Path) -> bool:
    """Whether a graph in the store can be read, and every data file it refers to is there, the user's own too."""
    try:
        graph = onnx.load(path, load_external_data=False)
        files = [linked_path(entry.value) or path.parent / entry.value for entry in locations(graph)]
        return all(file.is_file() for file in (*files, *(path.parent / name for name in context_files(graph))))
    except (OSError, ValueError, DecodeError):
        return False


def _externalize(graph: ir.Model, store: Path, name: str | None = None) -> None:
    """Move large tensors that lie elsewhere into one new data file, called ``name``, or by its digest."""
    inside = store.resolve()
    todo = []
    for value, tensor in _tensors(graph):
        if isinstance(tensor, ir.ExternalTensor) and (
            is_linked(tensor) or Path(tensor.path).parent.resolve() == inside
        ):
            continue
        if tensor.nbytes >= EXTERNAL_FROM_BYTES:
            todo.append((value, tensor))
        elif isinstance(tensor, ir.ExternalTensor):
            value.const_value = embedded_tensor(tensor)
    if not todo:
        return
    with unnamed_file(store) as temporary:
        digest = hashlib.sha256()
        write_tensors(todo, temporary, digest.update)
        final = store / (name or f"{digest.hexdigest()}.data")
        keep_by_digest(temporary, final)
    for value, tensor in todo:
        written = value.const_value
        assert isinstance(written, ir.ExternalTensor)
        value.const_value = placed(tensor, final, written.offset, written.length)


def _large_tensors(
    graph: ir.Model, size_threshold: int = EXTERNAL_FROM_BYTES
) -> Iterator[tuple[ir.Value, TensorProtocol]]:
    """Initializers, those of subgraphs too, that belong in a data file."""
    return ((value, tensor) for value, tensor in _tensors(graph) if tensor.nbytes >= size_threshold)


def _tensors(graph: ir.Model) -> Iterator[tuple[ir.Value, TensorProtocol]]:
    """Initializers, those of subgraphs too, that a data file can hold."""
    for part in graph.graphs():
        for value in part.initializers.values():
            tensor = value.const_value
            if tensor is None or tensor.dtype == ir.DataType.STRING:
                continue
            if not (isinstance(tensor, ir.ExternalTensor) and tensor.location == SUPPLIED):
                yield value, tensor
