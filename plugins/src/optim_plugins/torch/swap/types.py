"""A model in another type of float, and what is in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


def as_dtype(model: onnx.ModelProto, dtype: np.dtype[Any]) -> onnx.ModelProto:
    """The model with every float of its interface, weights and casts in another type; a copy."""
    kind = helper.np_dtype_to_tensor_dtype(dtype)
    kinds = onnx.TensorProto
    floats = (kinds.FLOAT, kinds.FLOAT16, kinds.BFLOAT16, kinds.DOUBLE)
    changed: onnx.ModelProto = onnx.ModelProto.FromString(model.SerializeToString())
    for graph in _graphs(changed.graph):
        del graph.value_info[:]
        for value in (*graph.input, *graph.output):
            if value.type.tensor_type.elem_type in floats:
                value.type.tensor_type.elem_type = kind
        attributes = [one for node in graph.node for one in node.attribute]
        for tensor in (*graph.initializer, *(one.t for one in attributes if one.HasField("t"))):
            if tensor.data_type in floats:
                tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
        casts = [one for node in graph.node if node.op_type == "Cast" for one in node.attribute]
        for attribute in casts:
            if attribute.name == "to" and attribute.i in floats:
                attribute.i = kind
    return changed


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph, and bodies of branches and loops inside it."""
    yield graph
    for attribute in (one for node in graph.node for one in node.attribute if one.HasField("g")):
        yield from _graphs(attribute.g)


def operators(model: onnx.ModelProto) -> Iterator[str]:
    """Types of the nodes whose kernels can be chosen: of the main graph, and of branches."""
    yield from dict.fromkeys(node.op_type for node in _chosen(model.graph))


def _chosen(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        if node.op_type == "If":
            for attribute in node.attribute:
                yield from _chosen(attribute.g)


def computes_in(dtype: np.dtype[np.generic]) -> bool:
    """Whether values of a type are computed with in any float; smaller ones, and integers of ml_dtypes, are stored."""
    return dtype.name in ("float16", "bfloat16", "float32", "float64")
