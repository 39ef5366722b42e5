"""A graph in float16."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from optim.arrays import Array, Feeds, Outputs
from optim.onnx import adapter_names

_LARGEST = 65504.0
_WIDE, _NARROW = ir.DataType.FLOAT, ir.DataType.FLOAT16


def narrowed(model: ir.Model, *, keep_io: bool) -> dict[str, int]:
    """Convert in place.

    Args:
        model: in float32.
        keep_io: leave inputs and outputs in float32, with a Cast beside each.

    Returns:
        How many constants were converted, how many of them clipped, and how many Casts were added.
    """
    counts = {"constants": 0, "clipped": 0, "Cast added": 0}
    adapters = adapter_names(model)
    for graph in model.graphs():
        for value in list(graph.initializers.values()):
            if value.name not in adapters:
                _narrow_constant(value, counts)
        for node in graph:
            _narrow_attributes(node, counts)
            for value in node.outputs:
                _narrow_type(value)
    for value in model.graph.inputs:
        if value.dtype == _WIDE and (not value.is_initializer() or value.name in adapters):
            counts["Cast added"] += _cast_input(model.graph, value) if keep_io else _narrow_type(value)
    if keep_io:
        for place, value in enumerate(model.graph.outputs):
            if value.dtype == _NARROW:
                counts["Cast added"] += _cast_output(model.graph, place, value)
    return counts


def feeds_float16(feeds: Feeds, names: Sequence[str]) -> Feeds:
    """The original's feeds as the converted model takes them."""
    return {name: array.astype(np.float16) if name in names else array for name, array in feeds.items()}


def outputs_float32(arrays: Outputs, names: Sequence[str]) -> Outputs:
    """The converted model's outputs as the original gives them."""
    return {name: array.astype(np.float32) if name in names else array for name, array in arrays.items()}


def _narrow_constant(value: ir.Value, counts: dict[str, int]) -> None:
    tensor = value.const_value
    if tensor is None or tensor.dtype != _WIDE:
        return
    value.const_value = _narrow_tensor(tensor.numpy(), value.name or "", counts)
    _narrow_type(value)


def _narrow_tensor(array: Array, name: str, counts: dict[str, int]) -> ir.TensorProtocol:
    counts["constants"] += 1
    counts["clipped"] += int((np.abs(array) > _LARGEST).any())
    return ir.tensor(np.clip(array, -_LARGEST, _LARGEST).astype(np.float16), name=name)


def _narrow_attributes(node: ir.Node, counts: dict[str, int]) -> None:
    """Tensors that a node holds itself, and the type that a Cast makes."""
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.TENSOR and attribute.as_tensor().dtype == _WIDE:
            tensor = attribute.as_tensor()
            node.attributes[name] = ir.AttrTensor(name, _narrow_tensor(tensor.numpy(), tensor.name or "", counts))
        elif name in ("to", "dtype") and attribute.as_int() == _WIDE.value:
            node.attributes[name] = ir.AttrInt64(name, _NARROW.value)


def _narrow_type(value: ir.Value) -> int:
    if value.dtype == _WIDE:
        value.dtype = _NARROW
    return 0


def _cast_input(graph: ir.Graph, value: ir.Value) -> int:
    made = ir.node("Cast", [value], {"to": _NARROW.value}, name=f"{value.name}_to_float16")
    inner = made.outputs[0]
    inner.name, inner.shape, inner.type = f"{value.name}_float16", value.shape, ir.TensorType(_NARROW)
    ir.convenience.replace_all_uses_with(value, inner)
    made.replace_input_with(0, value)
    graph.insert_before(graph[0], made) if len(graph) else graph.append(made)
    return 1


def _cast_output(graph: ir.Graph, place: int, value: ir.Value) -> int:
    name = value.name or f"output_{place}"
    value.name = f"{name}_float16"
    made = ir.node("Cast", [value], {"to": _WIDE.value}, name=f"{name}_to_float32")
    outer = made.outputs[0]
    outer.name, outer.shape, outer.type = name, value.shape, ir.TensorType(_WIDE)
    graph.append(made)
    graph.outputs[place] = outer
    return 1
