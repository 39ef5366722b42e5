"""Weights in 16 bits, computed with in float32.

Before::

    y = MatMul(a, W)                            W float32

After::

    y = MatMul(a, Cast(W16, to=float32))        folded once, when the model is opened

Half the size on disk at the same speed. Memory does not shrink: the model is computed with in float32 once it is open,
and opening it takes the room of both for a moment.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import onnx_ir as ir
from onnx_ir import TensorProtocol
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.onnx import UniqueNames, add_constant
from optim_plugins.ort.graph.fixed_weights import drop_unread_weights
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow, fit, narrowed

LEAST_ELEMENTS = 256
"""Smaller weights are not worth a node."""


def readers(graph: ir.Model) -> list[str]:
    """Names of the nodes that read a large float32 weight, in graph order."""
    return [node.name for node in graph.graph.all_nodes() if node.name and any(map(_is_large, node.inputs))]


def store_narrow(graph: ir.Model, narrow: Narrow, keep: Collection[str] = ()) -> tuple[int, int]:
    """Round every large float32 weight, and cast it back where it is read.

    Args:
        graph: changed in place.
        narrow: the type.
        keep: names of nodes; what one of them reads is left alone.

    Returns:
        How many were rounded, and how many were left since their numbers do not fit.
    """
    names = UniqueNames(graph)
    done = left = 0
    for part in list(graph.graphs()):
        for value in list(part.initializers.values()):
            tensor = value.const_value
            if tensor is None or not _is_large(value) or any(node.name in keep for node in value.consumers()):
                continue
            found = fit(tensor.numpy(), narrow)
            if found.symbolic or found.beyond or (narrow is Narrow.FLOAT16 and not found.is_close):
                left += 1
                continue
            _replace(part, value, narrow, names)
            done += 1
    RemoveUnusedNodesPass()(graph)
    drop_unread_weights(graph)
    return done, left


def _is_large(value: ir.Value | None) -> bool:
    tensor = None if value is None else value.const_value
    if value is None or tensor is None or value.is_graph_output() or value.is_graph_input():
        return False
    return tensor.dtype == ir.DataType.FLOAT and tensor.size >= LEAST_ELEMENTS


def _replace(graph: ir.Graph | ir.Function, value: ir.Value, narrow: Narrow, names: UniqueNames) -> None:
    assert isinstance(graph, ir.Graph)
    tensor = value.const_value
    assert tensor is not None
    name = names.take(f"{value.name}_{narrow}")
    shape = ir.Shape(tensor.shape.numpy())

    def rounded() -> TensorProtocol:
        array: Any = narrowed(tensor.numpy(), narrow, narrow.bound)
        return ir.Tensor(array, dtype=narrow.onnx, name=name)

    stored = add_constant(graph, name, ir.LazyTensor(rounded, dtype=narrow.onnx, shape=shape, name=name))
    cast = ir.node("Cast", [stored], {"to": int(ir.DataType.FLOAT)}, name=f"{name}_cast")
    wide = cast.outputs[0]
    wide.name = f"{name}_as_float32"
    wide.type, wide.shape = ir.TensorType(ir.DataType.FLOAT), shape
    first = next(iter(graph), None)
    if first is None:
        graph.append(cast)
    else:
        graph.insert_before(first, cast)
    ir.convenience.replace_all_uses_with(value, wide)
