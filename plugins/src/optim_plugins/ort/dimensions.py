"""Where the sizes in a graph come from, so that two of them can be shown to be equal without running it.

Exporters spell a shape out: ``Reshape(x, Concat(Gather(Shape(y), 0), -1, 16))``. A size is here either a number or an
*origin*: an axis of a tensor, followed back through everything that hands it on unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import onnx_ir as ir

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Origin:
    """An axis of a tensor whose size is known when the model runs only."""

    value: ir.Value
    axis: int


Size: TypeAlias = int | str | Origin | None
"""A number, the name that the exporter gave it, where it comes from, or unknown."""

_MADE_UP = "unk__"
"""How onnx's shape inference calls sizes that it knows nothing of."""
_STEPS = 64
"""Chains are short; a longer one is given up, not followed."""
_HANDS_ON_FIRST = frozenset(
    ("Cast", "Identity", "Softmax", "LayerNormalization", "Neg", "Gelu", "Tanh", "Relu", "SimplifiedLayerNormalization")
)
_BROADCASTS = frozenset(
    ("Add", "Sub", "Mul", "Div", "And", "Or", "Where", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal", "Max", "Min")
)


def constant(value: ir.Value | None) -> NDArray[np.generic] | None:
    """The array of an initializer or a Constant node; None for anything larger than a few numbers."""
    if value is None or value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return tensor.numpy() if tensor is not None and tensor.size <= _STEPS else None


def scalar(value: ir.Value | None) -> float | None:
    """The number that a constant of one element holds."""
    array = constant(value)
    return float(array.reshape(())) if array is not None and array.size == 1 and array.dtype.kind in "fiub" else None


def rank(value: ir.Value, steps: int = _STEPS) -> int | None:
    """Number of axes, where it is known."""
    if value.shape is not None:
        return len(value.shape)
    node = value.producer()
    if node is None or steps == 0 or node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Transpose" and "perm" in node.attributes:
        return len(node.attributes["perm"].as_ints())
    if node.op_type == "Reshape":
        target = target_sizes(node)
        return len(target) if target is not None else None
    if node.op_type in _BROADCASTS:
        return _highest([rank(operand, steps - 1) for operand in node.inputs if operand is not None])
    if node.op_type == "Expand" and node.inputs[0] is not None:
        target = target_sizes(node)
        return _highest([rank(node.inputs[0], steps - 1), len(target) if target is not None else None])
    if node.op_type in _HANDS_ON_FIRST and node.inputs[0] is not None:
        return rank(node.inputs[0], steps - 1)
    return None


def size_of(value: ir.Value | None, axis: int, steps: int = _STEPS) -> Size:
    """The size of an axis (counted from the front) of a tensor."""
    if value is None or steps == 0:
        return None
    known = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
    if isinstance(known, int):
        return known
    node = value.producer()
    found: Size = None
    if node is not None and node.domain in ("", "ai.onnx"):
        found = _handed_on(node, axis, steps - 1)
    if found is None and known is not None and known.value is not None and not known.value.startswith(_MADE_UP):
        return known.value
    return found if found is not None else Origin(value, axis)


def number_in(value: ir.Value | None, steps: int = _STEPS) -> Size:
    """What an integer tensor of one element holds, e.g. one part of a Reshape's target."""
    known = scalar(value)
    if known is not None:
        return int(known)
    node = _producer(value)
    if node is None or steps == 0:
        return None
    if node.op_type in ("Unsqueeze", "Squeeze", "Cast", "Identity", "Reshape"):
        return number_in(node.inputs[0], steps - 1)
    sizes = _part_of_shape(node, steps)
    return sizes[0] if sizes is not None and len(sizes) == 1 else None


def target_sizes(node: ir.Node) -> list[Size] | None:
    """The sizes that a Reshape or Expand asks for; -1 and 0 as they stand."""
    return _sizes_in(node.inputs[1])


def keeps_shape(reshape: ir.Node) -> bool:
    """Whether a Reshape is shown to return its input as it is: every size but one is the input's own."""
    source = reshape.inputs[0]
    target = target_sizes(reshape)
    if source is None or target is None or rank(source) != len(target):
        return False
    unproven = [size for axis, size in enumerate(target) if size != 0 and (size is None or size != size_of(source, axis))]
    return len(unproven) <= 1


def _sizes_in(target: ir.Value | None) -> list[Size] | None:
    """What a vector of sizes holds."""
    array = constant(target)
    if array is not None:
        return [int(size) for size in array.reshape(-1)]
    node = target.producer() if target is not None else None
    if node is None:
        return None
    if node.op_type in ("Reshape", "Cast", "Identity"):
        return _sizes_in(node.inputs[0])
    if node.op_type == "Where" and (test := _producer(node.inputs[0])) is not None and test.op_type == "Equal":
        sizes = _sizes_in(node.inputs[2])
        return None if sizes is None or test.inputs[0] is not node.inputs[2] else [1 if size == -1 else size for size in sizes]
    if node.op_type != "Concat":
        return None
    found: list[Size] = []
    for part in node.inputs:
        several, source = constant(part), _producer(part)
        if several is not None:
            found += [int(size) for size in several.reshape(-1)]
        else:
            sizes = _part_of_shape(source, _STEPS) if source is not None else None
            found += sizes if sizes is not None else [number_in(part)]
    return found


def _part_of_shape(node: ir.Node, steps: int) -> list[Size] | None:
    """The sizes that a Shape, or a Gather or Slice of one, returns."""
    if node.op_type == "Shape":
        source = node.inputs[0]
        axes = rank(source) if source is not None else None
        if axes is None:
            return None
        start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", axes)
        return [size_of(source, axis, steps - 1) for axis in range(axes)[start:end]]
    shape = _producer(node.inputs[0]) if node.op_type in ("Gather", "Slice") else None
    whole = _part_of_shape(shape, steps - 1) if shape is not None and shape.op_type == "Shape" else None
    if whole is None:
        return None
    numbers = [constant(part) for part in node.inputs[1:3]]
    if any(array is None or array.size != 1 for array in numbers):
        return None
    first, *last = (int(array.reshape(())) for array in numbers if array is not None)
    if node.op_type == "Gather":
        return [whole[first]] if -len(whole) <= first < len(whole) else None
    plain = all(part is None or scalar(part) in (0, 1) for part in node.inputs[3:])
    return whole[first : last[0]] if plain else None


def _highest(ranks: Sequence[int | None]) -> int | None:
    known = [one for one in ranks if one is not None]
    return max(known) if len(known) == len(ranks) > 0 else None


def _handed_on(node: ir.Node, axis: int, steps: int) -> Size:
    first = node.inputs[0] if node.inputs else None
    if node.op_type in _HANDS_ON_FIRST:
        return size_of(first, axis, steps)
    if node.op_type == "Transpose" and "perm" in node.attributes:
        return size_of(first, node.attributes["perm"].as_ints()[axis], steps)
    if node.op_type == "Reshape":
        target = target_sizes(node)
        size = target[axis] if target is not None and axis < len(target) else None
        if size == 0 and not node.attributes.get_int("allowzero", 0):
            return size_of(first, axis, steps)
        return _left_over(node, target) if size == -1 and target is not None else size if size != 0 else None
    if node.op_type == "Slice" and len(node.inputs) > 3:
        cut = constant(node.inputs[3])
        axes = rank(first) if first is not None else None
        untouched = cut is not None and axes is not None and axis not in {int(one) % axes for one in cut.reshape(-1)}
        return size_of(first, axis, steps) if untouched else None
    if node.op_type == "Concat":
        axes = rank(node.outputs[0])
        along = node.attributes.get_int("axis", 0)
        along = along + axes if along < 0 and axes is not None else along
        return size_of(first, axis, steps) if along not in (axis, -1) and along >= 0 else None
    if node.op_type in _BROADCASTS:
        axes = rank(node.outputs[0])
        return None if axes is None else _together([_aligned(value, axis, axes, steps) for value in node.inputs])
    if node.op_type == "Expand":
        return _expanded(node, axis, steps)
    if node.op_type == "Gather" and node.attributes.get_int("axis", 0) == 0:
        indices = node.inputs[1]
        axes = rank(indices) if indices is not None else None
        return size_of(indices, axis, steps) if axes is not None and axis < axes else None
    return _of_product(node, axis, steps) if node.op_type == "MatMul" else None


def _left_over(reshape: ir.Node, target: list[Size]) -> int | None:
    """What -1 stands for: the sizes that only the input has, over those that only the target has."""
    source = reshape.inputs[0]
    axes = rank(source) if source is not None else None
    if source is None or axes is None:
        return None
    asked = [size for size in target if size != -1]
    own = [size_of(source, axis) for axis in range(axes)]
    for axis, size in enumerate(target):
        if size == 0 and axis < axes:
            asked.remove(0)
            asked.append(own[axis])
    for size in list(asked):
        if size in own:
            own.remove(size)
            asked.remove(size)
    numbers = [math.prod(size for size in sizes if isinstance(size, int)) for sizes in (own, asked)]
    if not all(isinstance(size, int) for size in (*own, *asked)) or not numbers[1] or numbers[0] % numbers[1]:
        return None
    return numbers[0] // numbers[1]


def _of_product(node: ir.Node, axis: int, steps: int) -> Size:
    left, right = node.inputs[0], node.inputs[1]
    axes = rank(node.outputs[0])
    if axes is None or left is None or right is None or rank(left) != axes:
        return None
    if axis == axes - 1:
        columns = rank(right)
        return size_of(right, columns - 1, steps) if columns else None
    size = size_of(left, axis, steps)
    return None if size == 1 and axis < axes - 2 else size


def _expanded(node: ir.Node, axis: int, steps: int) -> Size:
    target = target_sizes(node)
    if target is None or node.inputs[0] is None or (rank(node.inputs[0]) or 99) > len(target):
        return None
    return _together([target[axis], _aligned(node.inputs[0], axis, len(target), steps)])


def _aligned(value: ir.Value | None, axis: int, axes: int, steps: int) -> Size:
    """The size of an operand at an axis of the result that it is broadcast to."""
    own = rank(value) if value is not None else None
    if own is None:
        return None
    return 1 if axis < axes - own else size_of(value, axis - (axes - own), steps)


def _together(sizes: list[Size]) -> Size:
    """The size that operands of these sizes are broadcast to."""
    known = [size for size in sizes if isinstance(size, int) and size != 1]
    if known:
        return known[0]
    longer = [size for size in sizes if size != 1]
    if not longer:
        return 1
    return longer[0] if all(size == longer[0] for size in longer) else None


def _producer(value: ir.Value | None) -> ir.Node | None:
    return value.producer() if value is not None else None
