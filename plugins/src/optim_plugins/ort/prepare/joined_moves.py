"""Moves that follow each other, joined: a Reshape behind a Reshape, and a Transpose behind a quantized weight.

Before and after::

    Reshape(Reshape(x, s), t)                            Reshape(x, t)                 t constant, without 0
    Transpose(DequantizeLinear(W, scale, zero))          DequantizeLinear(W^T, scale, zero)

A Reshape only counts elements, so the shape between two of them does not matter; a 0 in ``t`` would copy a size of it.
A scale for each channel stays with its channel: the axis moves as the Transpose moves it. Only a weight that nothing
else reads is turned, so that none is stored twice.
"""

from __future__ import annotations

import onnx_ir as ir

from optim.onnx import only_reader
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer, small_constant
from optim_plugins.ort.graph.transposed_weights import add_transposed

_STANDARD = ("", "ai.onnx")
_KNOWN = {"Reshape": ("allowzero",), "Transpose": ("perm",), "DequantizeLinear": ("axis", "block_size", "output_dtype")}
_DEFAULT_AXIS = 1


def join_moves(graph: ir.Model) -> int:
    """Join them in place; how many nodes are left without a reader."""
    nodes = [one for one in graph.graph.all_nodes() if one.domain in _STANDARD]
    joined = sum(_join_reshapes(node) for node in nodes if node.op_type == "Reshape")
    return joined + sum(_turn_weight(node, graph) for node in nodes if node.op_type == "Transpose")


def _join_reshapes(node: ir.Node) -> bool:
    target = small_constant(node.inputs[1]) if len(node.inputs) > 1 else None
    first = producer(node.inputs[0], "Reshape")
    if target is None or (target == 0).any() or first is None or not are_known([node], _KNOWN):
        return False
    if only_reader(first.outputs[0]) is not node or first.inputs[0] is None:
        return False
    node.replace_input_with(0, first.inputs[0])
    return True


def _turn_weight(node: ir.Node, graph: ir.Model) -> bool:
    source = node.inputs[0].producer() if node.inputs[0] is not None else None
    if source is None or source.op_type != "DequantizeLinear" or source.domain not in _STANDARD:
        return False
    weight = source.inputs[0]
    is_alone = only_reader(source.outputs[0]) is node and not node.outputs[0].is_graph_output()
    if weight is None or not is_alone or not are_known([node, source], _KNOWN) or not _is_own(weight, source):
        return False
    scale = source.inputs[1].const_value if source.inputs[1] is not None else None
    if scale is None or source.attributes.get_int("block_size"):
        return False
    assert weight.const_value is not None
    axes = len(weight.const_value.shape)
    order = tuple(node.attributes.get_ints("perm", list(range(axes))[::-1]))
    if len(scale.shape):
        axis = source.attributes.get_int("axis", _DEFAULT_AXIS) % axes
        source.attributes["axis"] = ir.AttrInt64("axis", order.index(axis))
    source.replace_input_with(0, add_transposed(graph, weight, order))
    source.outputs[0].shape = node.outputs[0].shape
    ir.convenience.replace_all_uses_with(node.outputs[0], source.outputs[0])
    return True


def _is_own(weight: ir.Value, reader: ir.Node) -> bool:
    """Whether a value is a weight that only this node reads."""
    is_weight = weight.is_initializer() and weight.const_value is not None and not weight.is_graph_input()
    return is_weight and not weight.is_graph_output() and {use.node for use in weight.uses()} == {reader}
