"""Nodes that compute ``factor * x + shift`` with constants: one number each, or one for each channel.

Exporters write them as Mul, Div, Add, Sub or BatchNormalization. Several of them, one behind the other, are one::

    f2 * (f1 * x + s1) + s2  =  (f2 * f1) * x + (f2 * s1 + s2)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import read_constant
from optim_plugins.ort.graph.known_attributes import are_known

_KNOWN = {"BatchNormalization": ("epsilon", "momentum", "spatial", "training_mode", "is_test")}
_STANDARD = ("", "ai.onnx")
_MOST_CHANNELS = 1 << 16
"""Longer constants are no numbers of channels; they are not read."""

Numbers = NDArray[np.float64]
"""Of no axis, or [channels]."""


@dataclass(frozen=True)
class Affine:
    """``factor * source + shift``, computed in float64.

    Attributes:
        source: what goes in.
        factor: of no axis, or [C], finite.
        shift: of no axis, or [C], finite.
    """

    source: ir.Value
    factor: Numbers
    shift: Numbers

    def then(self, step: Affine) -> Affine:
        """Both steps as one; ``step`` reads what this one gives."""
        return Affine(self.source, step.factor * self.factor, step.factor * self.shift + step.shift)


def affine_step(node: ir.Node | None, axes: int) -> Affine | None:
    """What a node computes of a float32 tensor with so many axes; None where that is no such step."""
    if node is None or node.domain not in _STANDARD or not node.outputs:
        return None
    if node.op_type == "BatchNormalization":
        return _normalization(node)
    if node.op_type not in ("Add", "Sub", "Mul", "Div") or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    right = _numbers(second, axes)
    if (right is not None or _numbers(first, axes) is not None) and not are_known([node], _KNOWN):
        return None  # with attributes it is of opset 6, which broadcasts in its own way
    if right is not None and first is not None:
        return _right(node.op_type, first, right)
    left = _numbers(first, axes)
    if left is None or second is None or node.op_type == "Div":
        return None
    return (
        _finite(Affine(second, np.array(-1.0), left)) if node.op_type == "Sub" else _right(node.op_type, second, left)
    )


def _right(operator: str, source: ir.Value, number: Numbers) -> Affine | None:
    one, zero = np.array(1.0), np.array(0.0)
    if operator in ("Add", "Sub"):
        return _finite(Affine(source, one, number if operator == "Add" else -number))
    with np.errstate(divide="ignore"):
        return _finite(Affine(source, number if operator == "Mul" else 1.0 / number, zero))


def _normalization(node: ir.Node) -> Affine | None:
    """``scale / sqrt(variance + epsilon) * (x - mean) + bias``, as it is when a model runs."""
    others = any(list(value.uses()) or value.is_graph_output() for value in node.outputs[1:])
    is_plain = not node.attributes.get_int("training_mode", 0) and node.attributes.get_int("spatial", 1) != 0
    if others or not is_plain or not are_known([node], _KNOWN):
        return None
    arrays = [read_constant(value, at_most=_MOST_CHANNELS) for value in node.inputs[1:5]]
    source = node.inputs[0]
    if source is None or len(arrays) < 4 or any(array is None or array.dtype != "float32" for array in arrays):
        return None
    scale, bias, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + epsilon)
        return _finite(Affine(source, factor, bias - mean * factor))


def _numbers(value: ir.Value | None, axes: int) -> Numbers | None:
    """A constant of one number, or of one for each channel (the second axis), that broadcasts to nothing larger."""
    array = read_constant(value, at_most=_MOST_CHANNELS)
    if array is None or array.dtype != "float32" or array.ndim > axes or not array.size:
        return None
    if array.size == 1:
        return np.asarray(array, np.float64).reshape(())
    shape = (1,) * (axes - array.ndim) + array.shape
    is_of_channels = all(size == 1 for axis, size in enumerate(shape) if axis != 1)
    return np.asarray(array, np.float64).reshape(-1) if is_of_channels else None


def _finite(step: Affine) -> Affine | None:
    return step if np.isfinite(step.factor).all() and np.isfinite(step.shift).all() else None
