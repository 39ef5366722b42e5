"""The way a user's file comes into the store: checked, brought to external data, by streaming.

Afterwards every tensor of at least 1 KiB is an initializer that lies in a data file of the store, wherever it was
before: inside the model file, in a data file beside it (of any format: a ``.safetensors`` file too), or in a
Constant node. Nothing is believed that the file says about places: data is read from its own folder only.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from optim._engine.graphs.limits import check_operators, check_types
from optim._engine.graphs.user_files import check_file
from optim.errors import OptimError
from optim.model import Model
from optim.onnx.checker import check_context_files, check_external_data, check_graph, malformed_is_invalid
from optim.onnx.context_files import store_contexts
from optim.onnx.files import EXTERNAL_FROM_BYTES, embedded_tensor, save_in_store
from optim.onnx.operators import walk_graphs
from optim.onnx.skeleton import read_skeleton

_MOST_DENSE_BYTES = 1 << 31
"""What one message of protobuf may hold; a dense weight is written into one."""

_WEIGHTS_AMONG_INPUTS = 3
"""The IR version in which every weight had to be an input as well; from the next on such an input is a default."""


def ingest(path: Path, store: Path) -> Model:
    """Bring a model file into the store.

    Args:
        path: an ``.onnx`` file, its external data beside it or in folders below.
        store: folder of the store; the file itself is left alone.

    Returns:
        The model in the store. Peak memory is a few times the graph without its weights, whatever their size.

    Raises:
        OptimError: model-missing, model-is-a-folder, model-unreadable, model-empty, model-truncated, not-onnx,
            invalid-graph, unknown-operator, map-type, opset-too-new, ir-too-new, external-data-missing,
            external-data-outside, external-data-too-short, sparse-too-large.
    """
    check_file(path)
    skeleton = read_skeleton(path)
    with malformed_is_invalid(path):
        check_external_data(skeleton, path)
        check_context_files(skeleton, path)
        check_operators(skeleton, path)
        check_types(skeleton, path)
        _take_weights_out_of_inputs(skeleton)
        skeleton.graph.name = skeleton.graph.name or "graph"  # the checker asks for a name, and no runtime does
        check_graph(skeleton, path)
        forget_stale_shapes(skeleton)
        _fill_sparse(skeleton, path)
        graph = ir.serde.deserialize_model(skeleton)
        ir.external_data.set_base_dir(graph.graph, path.parent)
        del skeleton
        store_contexts(graph, path.parent, store)
        return _store(graph, store)


def read_unchecked(path: Path) -> ir.Model:
    """A model that onnx itself may refuse, to be looked at or cut; its weights are memory-mapped where they lie apart.

    Raises:
        OptimError: model-missing, model-is-a-folder, model-unreadable, model-empty, model-truncated, not-onnx,
            external-data-missing, external-data-outside, external-data-too-short.
    """
    check_file(path)
    skeleton = read_skeleton(path)
    with malformed_is_invalid(path):
        check_external_data(skeleton, path)
        graph = ir.serde.deserialize_model(skeleton)
    ir.external_data.set_base_dir(graph.graph, path.parent)
    return graph


def store_graph(graph: ir.Model, store: Path) -> Model:
    """Bring a graph that an exporter made into the store, its weights by streaming; refuses an invalid one."""
    model = _store(graph, store)
    skeleton = read_skeleton(model.path)
    check_operators(skeleton, model.path)
    check_graph(skeleton, model.path)
    return model


def _store(graph: ir.Model, store: Path) -> Model:
    LiftConstantsToInitializersPass(size_limit=EXTERNAL_FROM_BYTES // 8)(graph)
    _embed_attributes(graph)
    _forget_placeholders(graph)
    return save_in_store(graph, store)


def _take_weights_out_of_inputs(skeleton: onnx.ModelProto) -> None:
    """Write a graph of IR version 3 as one of version 4: its weights are constants, and may be made by passes.

    A runtime takes weights of version 3 for constants, also where they are no inputs, as in files of old model zoos;
    the checker refuses those. Listed in version 4, a weight would be a default that whoever runs it may replace.
    """
    if skeleton.ir_version != _WEIGHTS_AMONG_INPUTS:
        return
    skeleton.ir_version += 1
    weights = {tensor.name for tensor in skeleton.graph.initializer}
    for value in [value for value in skeleton.graph.input if value.name in weights]:
        skeleton.graph.input.remove(value)


def _fill_sparse(skeleton: onnx.ModelProto, path: Path) -> None:
    """Sparse initializers become dense ones, because onnx-ir drops them; a hundred bytes can claim any shape."""
    for graph in walk_graphs(skeleton.graph):
        for sparse in graph.sparse_initializer:
            values = onnx.numpy_helper.to_array(sparse.values)
            size = math.prod(sparse.dims) * values.itemsize
            if size > _MOST_DENSE_BYTES:
                raise OptimError(
                    "sparse-too-large",
                    f"{path} has a sparse weight that cannot be made dense",
                    f"'{sparse.values.name}' of shape {list(sparse.dims)} takes {size / 1e9:.1f} GB",
                    "store it as a dense initializer with external data",
                )
            indices = onnx.numpy_helper.to_array(sparse.indices)
            dense = np.zeros(tuple(sparse.dims), dtype=values.dtype)
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
            graph.initializer.append(onnx.numpy_helper.from_array(dense, sparse.values.name))
        del graph.sparse_initializer[:]


def _forget_placeholders(graph: ir.Model) -> None:
    """Take names such as ``?``, ``-1`` or ``None`` from dimensions: exporters give them to dimensions of any size."""
    values = [value for part in graph.graphs() for value in (*part.inputs, *part.outputs)]
    values += [value for node in graph.graph.all_nodes() for value in node.outputs]
    for value in values:
        if value.shape is not None and any(_is_placeholder(size) for size in value.shape):
            value.shape = ir.Shape([None if _is_placeholder(size) else size for size in value.shape])


def _is_placeholder(size: int | ir.SymbolicDim) -> bool:
    name = None if isinstance(size, int) else size.value
    return name is not None and (name == "None" or not any(letter.isalpha() or letter == "_" for letter in name))


def _embed_attributes(graph: ir.Model) -> None:
    """Tensors in attributes that are no initializers must lie in the graph: runtimes look for them nowhere else."""
    for node in graph.graph.all_nodes():
        for name, attribute in list(node.attributes.items()):
            if attribute.type == ir.AttributeType.TENSOR and isinstance(attribute.value, ir.ExternalTensor):
                node.attributes[name] = ir.AttrTensor(name, embedded_tensor(attribute.value))
            elif attribute.type == ir.AttributeType.TENSORS:
                tensors = [embedded_tensor(t) if isinstance(t, ir.ExternalTensor) else t for t in attribute.value]
                node.attributes[name] = ir.AttrTensors(name, tensors)


def forget_stale_shapes(skeleton: onnx.ModelProto) -> None:
    """Take types and shapes of values between nodes away where inference from the inputs says something else.

    What inference knows nothing of is kept: it does not see through operators of a runtime's own.
    """
    if not skeleton.graph.value_info:
        return
    bare = onnx.ModelProto()
    bare.CopyFrom(skeleton)
    del bare.graph.value_info[:]
    try:
        found = onnx.shape_inference.infer_shapes(bare)
    except (onnx.shape_inference.InferenceError, ValueError):  # a graph that it cannot read at all
        return
    inferred = {value.name: value.type.tensor_type for value in found.graph.value_info}
    declared = list(skeleton.graph.value_info)
    del skeleton.graph.value_info[:]
    skeleton.graph.value_info.extend(
        value
        for value in declared
        if value.name not in inferred or not _contradict(value.type.tensor_type, inferred[value.name])
    )


def _contradict(declared: onnx.TypeProto.Tensor, inferred: onnx.TypeProto.Tensor) -> bool:
    if declared.elem_type and inferred.elem_type and declared.elem_type != inferred.elem_type:
        return True
    if not declared.HasField("shape") or not inferred.HasField("shape"):
        return False
    sizes, others = declared.shape.dim, inferred.shape.dim
    return len(sizes) != len(others) or any(
        one.HasField("dim_value") and other.HasField("dim_value") and one.dim_value != other.dim_value
        for one, other in zip(sizes, others, strict=True)
    )
