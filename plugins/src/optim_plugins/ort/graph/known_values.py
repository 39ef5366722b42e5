"""What can be said of a value by looking at the node that makes it: a constant, its number, an order of axes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import read_constant
from optim_plugins.ort.graph.known_attributes import are_known

_PLAIN = (
    *("Add", "And", "ConstantOfShape", "Cos", "Div", "Equal", "Erf", "Expand", "Greater", "GreaterOrEqual", "Identity"),
    *("Less", "LessOrEqual", "MatMul", "Mul", "Neg", "Not", "Or", "Pow", "Range", "Reciprocal", "Sigmoid", "Sin"),
    *("Slice", "Sqrt", "Sub", "Tanh", "Where"),
)
_KNOWN = {
    **dict.fromkeys(_PLAIN, ()),
    "Cast": ("to", "saturate", "round_mode"),
    "Concat": ("axis",),
    "ConstantOfShape": ("value",),
    "Gather": ("axis",),
    "ReduceMean": ("axes", "keepdims", "noop_with_empty_axes"),
    "Reshape": ("allowzero",),
    "Shape": ("start", "end"),
    "Slice": ("axes", "ends", "starts"),
    "Softmax": ("axis",),
    "Split": ("axis", "num_outputs", "split"),
    "Squeeze": ("axes",),
    "Transpose": ("perm",),
    "Unsqueeze": ("axes",),
}
"""Attributes of the operators that patterns are made of: in a node with another a pattern ends."""

_SMALL = 64


def small_constant(value: ir.Value | None) -> NDArray[np.generic] | None:
    """The array of an initializer or a Constant node; None for anything larger than a few numbers."""
    found: NDArray[np.generic] | None = read_constant(value, at_most=_SMALL)
    return found


def scalar(value: ir.Value | None) -> float | None:
    """The number that a constant of one element holds."""
    array = small_constant(value)
    return float(array.reshape(())) if array is not None and array.size == 1 and array.dtype.kind in "fiub" else None


def filled_with(value: ir.Value | None) -> float | None:
    """The number that every element of a value is, as exporters write it; None where it is not known."""
    array = small_constant(value)
    if array is not None:
        is_one_number = array.size > 0 and array.dtype.kind in "fiub" and bool((array == array.reshape(-1)[0]).all())
        return float(array.reshape(-1)[0]) if is_one_number else None
    node = producer(value, "ConstantOfShape", "Expand", "Identity", "Mul", "Reshape", "Unsqueeze")
    if node is None:
        return None
    if node.op_type == "ConstantOfShape":
        tensor = node.attributes.get_tensor("value")
        return float(tensor.numpy().reshape(-1)[0]) if tensor is not None else 0.0
    if node.op_type == "Mul":
        factors = [filled_with(factor) for factor in node.inputs]
        return factors[0] * factors[1] if factors[0] is not None and factors[1] is not None else None
    return filled_with(node.inputs[0])


def permutation(node: ir.Node | None) -> list[int] | None:
    """How a Transpose orders axes; None for any other node."""
    if node is None or node.op_type != "Transpose" or "perm" not in node.attributes or not are_known([node], _KNOWN):
        return None
    return list(node.attributes.get_ints("perm", []))


def producer(value: ir.Value | None, *operators: str) -> ir.Node | None:
    """The node that makes a value, where it is one of these standard operators (any, if none is named).

    None if it has an attribute that no rewrite knows.
    """
    node = value.producer() if value is not None else None
    if node is None or node.domain not in ("", "ai.onnx") or (operators and node.op_type not in operators):
        return None
    return node if node.op_type not in _KNOWN or are_known([node], _KNOWN) else None
