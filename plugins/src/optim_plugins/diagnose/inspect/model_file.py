"""What a model file is, without running it and without reading its weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx.external_data_helper import uses_external_data

from optim.engine.inspect import (
    check_file,
    count_operators,
    is_file,
    malformed_is_invalid,
    read_skeleton,
    tensor_bytes,
    walk_graphs,
    walk_nodes,
)
from optim.model import TensorInfo, dtype_name
from optim.onnx import subgraphs


@dataclass(frozen=True, slots=True)
class Weights:
    """The initializers and Constant tensors of one type.

    Attributes:
        dtype: numpy's name for it, ``float32``, ``int8``.
        count: tensors.
        size_bytes: of their data, each tensor as often as it is listed.
    """

    dtype: str
    count: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Inspection:
    """What :func:`inspect` found.

    Attributes:
        path: the graph.
        inputs: what a run must be fed.
        outputs: what a run returns.
        opset: operator set version by domain; the standard domain is ``ai.onnx``.
        ir_version: ONNX IR version of the file.
        producer: name and version of the tool that wrote it.
        operators: nodes by operator, most frequent first, those of subgraphs and functions too.
        nodes: their sum.
        subgraphs: bodies of If, Loop and Scan.
        functions: the model's own functions, as ``domain:name``.
        size_bytes: graph and weights on disk, data that several tensors share counted once.
        graph_bytes: the model file.
        data_files: external data files, relative to the model's folder.
        missing_files: those that are not there.
        weights: by dtype, largest first.
        shared_weights: tensors whose data is also another tensor's, as (name, name of the first).
        dynamic: inputs by symbolic dimension, as ``name[axis]``; unnamed dimensions under ``?``.
    """

    path: Path
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    opset: Mapping[str, int]
    ir_version: int
    producer: str
    operators: Mapping[str, int]
    nodes: int
    subgraphs: int
    functions: tuple[str, ...]
    size_bytes: int
    graph_bytes: int
    data_files: tuple[str, ...]
    missing_files: tuple[str, ...]
    weights: tuple[Weights, ...]
    shared_weights: tuple[tuple[str, str], ...]
    dynamic: Mapping[str, tuple[str, ...]]


def inspect(path: Path) -> Inspection:
    """Describe a model file; reads the graph only, so a file of any size takes little memory.

    Args:
        path: an ``.onnx`` file; external data need not be there.

    Raises:
        OptimError: the file is not there, or is no ONNX model.
    """
    check_file(path)
    model = read_skeleton(path)
    with malformed_is_invalid(path):
        return _describe(model, path)


def _describe(model: onnx.ModelProto, path: Path) -> Inspection:
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(TensorInfo.of(value) for value in model.graph.input if value.name not in initializers)
    operators = count_operators(model)
    tensors = _weights(model)
    places = _places(tensors)
    data_files = sorted({location for location, _, _ in places if location != path.name})
    return Inspection(
        path=path,
        inputs=inputs,
        outputs=tuple(TensorInfo.of(value) for value in model.graph.output),
        opset={entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
        ir_version=model.ir_version,
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        operators=operators,
        nodes=sum(operators.values()),
        subgraphs=sum(len(subgraphs(attribute)) for node in walk_nodes(model) for attribute in node.attribute),
        functions=tuple(f"{function.domain}:{function.name}" for function in model.functions),
        size_bytes=path.stat().st_size + sum(length for location, _, length in places if location != path.name),
        graph_bytes=path.stat().st_size,
        data_files=tuple(data_files),
        missing_files=tuple(name for name in data_files if not is_file(path.parent / name)),
        weights=_by_dtype(tensors),
        shared_weights=tuple((name, names[0]) for names in places.values() for name in names[1:]),
        dynamic=_dynamic(inputs),
    )


def _weights(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Initializers of the graph and its subgraphs, and the tensors of Constant nodes, named by their outputs."""
    found = [tensor for graph in walk_graphs(model.graph) for tensor in graph.initializer]
    for node in walk_nodes(model):
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t"):
                attribute.t.name = node.output[0]
                found.append(attribute.t)
    return found


def _places(tensors: list[onnx.TensorProto]) -> dict[tuple[str, int, int], list[str]]:
    """Names of tensors by where their data lies (location, offset, length)."""
    places: dict[tuple[str, int, int], list[str]] = defaultdict(list)
    for tensor in tensors:
        if uses_external_data(tensor):
            entry = {item.key: item.value for item in tensor.external_data}
            length = int(entry.get("length", tensor_bytes(tensor)))
            places[entry.get("location", ""), int(entry.get("offset", "0")), length].append(tensor.name)
    return dict(places)


def _by_dtype(tensors: list[onnx.TensorProto]) -> tuple[Weights, ...]:
    counts: dict[str, list[int]] = defaultdict(list)
    for tensor in tensors:
        counts[dtype_name(tensor.data_type)].append(tensor_bytes(tensor))
    groups = (Weights(dtype, len(sizes), sum(sizes)) for dtype, sizes in counts.items())
    return tuple(sorted(groups, key=lambda group: (-group.size_bytes, group.dtype)))


def _dynamic(inputs: tuple[TensorInfo, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = defaultdict(list)
    for info in inputs:
        if info.shape is None:
            found["?"].append(info.name)
            continue
        for axis, size in enumerate(info.shape):
            if not isinstance(size, int):
                found[size or "?"].append(f"{info.name}[{axis}]")
    return {name: tuple(uses) for name, uses in found.items()}
