"""Attention with its three projections inside: one product of three times the width instead of three.

Before::

    y = com.microsoft.MultiHeadAttention(x Wq + bq, x Wk + bk, x Wv + bv, attention_bias=mask)

After::

    y = com.microsoft.Attention(x, [Wq Wk Wv], [bq bk bv], attention_bias=mask)

The joined weight is new data. Quantization cannot reach it, so this pays where the model stays in float.
Operator: onnxruntime ``docs/ContribOperators.md``, com.microsoft.Attention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from optim.onnx import UniqueNames, add_constant
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer
from optim_plugins.ort.graph.node_writer import take_over

_KNOWN = {"MultiHeadAttention": ("num_heads", "scale")}
"""Of ``unidirectional`` and ``mask_filter_value`` Attention makes something else where there is a mask."""


@dataclass(frozen=True)
class Projection:
    """``source @ weight + bias``, and the nodes that compute it."""

    source: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    nodes: tuple[ir.Node, ...]


def pack_attention(graph: ir.Model) -> int:
    """Join the projections of every attention that has three of one input, in place; how many."""
    found = list(find_packable(graph))
    for node, projections in found:
        _pack(graph, node, projections)
    return len(found)


def find_packable(graph: ir.Model) -> Iterator[tuple[ir.Node, list[Projection]]]:
    """Those of :func:`find_projected` that Attention says as a whole."""
    for node, found in find_projected(graph):
        if are_known([node], _KNOWN):
            yield node, found


def find_projected(graph: ir.Model) -> Iterator[tuple[ir.Node, list[Projection]]]:
    """Every MultiHeadAttention of three projections of one input, and these."""
    for node in graph.graph:
        if node.op_type != "MultiHeadAttention" or node.domain != "com.microsoft" or len(node.outputs) != 1:
            continue
        projections = [one for one in map(_projection, node.inputs[:3]) if one is not None]
        if len(projections) < 3 or any(value is not None for value in (*node.inputs[3:5], *node.inputs[6:])):
            continue
        shape = projections[0].source.shape
        if len({one.source for one in projections}) != 1 or shape is None or len(shape) != 3:
            continue
        if are_known([one for projection in projections for one in projection.nodes], {}):
            yield node, projections


def _projection(value: ir.Value | None) -> Projection | None:
    node = last = producer(value)
    bias: ir.Value | None = None
    if node is not None and node.op_type == "Add":
        bias = next((side for side in node.inputs if side is not None and _is_constant(side, 1)), None)
        rest = next((side for side in node.inputs if side is not bias), None)
        node = producer(rest) if bias is not None else None
    if node is None or last is None or node.op_type != "MatMul" or node.inputs[0] is None or node.inputs[1] is None:
        return None
    nodes = (last,) if last is node else (last, node)
    return Projection(node.inputs[0], node.inputs[1], bias, nodes) if _is_constant(node.inputs[1], 2) else None


def _is_constant(value: ir.Value, axes: int) -> bool:
    tensor = value.const_value
    return value.is_initializer() and not value.is_graph_input() and tensor is not None and len(tensor.shape) == axes


def _pack(graph: ir.Model, node: ir.Node, projections: list[Projection]) -> None:
    name = node.name or node.outputs[0].name
    arrays = [_array(one.weight) for one in projections]
    biases = [
        np.broadcast_to(array.dtype.type(0) if one.bias is None else _array(one.bias), array.shape[1:])
        for one, array in zip(projections, arrays, strict=True)
    ]
    names = UniqueNames(graph)
    weight = add_constant(graph.graph, names.take(f"{name}_weight"), np.concatenate(arrays, axis=1))
    bias = add_constant(graph.graph, names.take(f"{name}_bias"), np.concatenate(biases))
    inputs: list[ir.Value | None] = [projections[0].source, weight, bias]
    if len(node.inputs) > 5 and node.inputs[5] is not None:
        inputs += [None, None, node.inputs[5]]
    sizes = [array.shape[1] for array in arrays]
    attributes: dict[str, int | float | list[int]] = {
        "num_heads": node.attributes.get_int("num_heads", 1),
        "qkv_hidden_sizes": sizes,
        "scale": node.attributes.get_float("scale", 0.0),
    }
    attention = ir.node("Attention", inputs, attributes, domain="com.microsoft", name=f"{name}_packed")
    attention.metadata_props.update(node.metadata_props)
    assert node.graph is not None
    node.graph.insert_before(node, attention)
    take_over(node.outputs[0], attention.outputs[0])


def _array(value: ir.Value) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    assert value.const_value is not None
    return value.const_value.numpy()
