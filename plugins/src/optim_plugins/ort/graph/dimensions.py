"""Where the sizes in a graph come from, so that two of them can be shown to be equal without running it.

Exporters spell a shape out: ``Reshape(x, Concat(Gather(Shape(y), 0), -1, 16))``. A size is here a number, or an
*origin*: an axis of a tensor, followed back through everything that hands it on unchanged, to the first that has the
name which the exporter gave it. Equal sizes here are equal in every run; different ones may still be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import onnx_ir as ir

from optim_plugins.ort.graph.known_values import filled_with, permutation, producer, scalar, small_constant


@dataclass(frozen=True)
class AxisOrigin:
    """An axis of a tensor whose size is known when the model runs only."""

    value: ir.Value
    axis: int


Size: TypeAlias = int | AxisOrigin | None
"""A number, where it comes from, or unknown."""

_MADE_UP = "unk__"
"""How onnx's shape inference calls sizes that it knows nothing of."""
_SAME_SHAPE = frozenset(
    ("Cast", "Erf", "Gelu", "Identity", "LayerNormalization", "Neg", "Relu", "Softmax", "Sqrt", "Tanh")
)
BROADCAST = frozenset(
    (
        "Add",
        "And",
        "Div",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "Max",
        "Min",
        "Mul",
        "Or",
        "Sub",
        "Where",
    )
)


class Sizes:
    """What is known of the sizes in a graph. Holds for values, so it stays true while nodes are added and replaced."""

    def __init__(self, graph: ir.Model, same: Mapping[ir.Value, ir.Value] | None = None) -> None:
        """Look at a graph.

        Args:
            graph: only its main graph is looked at.
            same: values whose shape is that of another, earlier one, where that is known from elsewhere.
        """
        self._same = dict(same or {})
        self._named: dict[str, AxisOrigin] = {}
        self._known: dict[tuple[ir.Value, int], Size] = {}
        self._ranks: dict[ir.Value, int | None] = {}
        values = [*graph.graph.inputs, *(value for node in graph.graph for value in node.outputs)]
        for value in values:
            for axis in range(self.rank(value) or 0):
                self.of(value, axis)

    def rank(self, value: ir.Value | None) -> int | None:
        """Number of axes, where it is known."""
        if value is None or value.shape is not None:
            return None if value is None or value.shape is None else len(value.shape)
        if value in self._same:
            return self.rank(self._same[value])
        if value not in self._ranks:
            node = value.producer()
            self._ranks[value] = self._rank(node) if node is not None else None
        return self._ranks[value]

    def of(self, value: ir.Value | None, axis: int) -> Size:
        """The size of an axis, counted from the front; unknown where there is no such axis."""
        if value is None or axis < 0:
            return None
        key = (value, axis)
        if key not in self._known:
            self._known[key] = self._of(value, axis)
        return self._known[key]

    def number(self, value: ir.Value, axis: int) -> int | None:
        """The size of an axis where it is the same in every run."""
        size = self.of(value, axis)
        return size if isinstance(size, int) else None

    def target(self, node: ir.Node) -> list[Size] | None:
        """The sizes that a Reshape or Expand asks for; -1 and 0 as they stand."""
        return self._listed(node.inputs[1])

    def keeps_shape(self, reshape: ir.Node) -> bool:
        """Whether a Reshape is shown to return its input as it is: every size but one is the input's own."""
        source, target = reshape.inputs[0], self.target(reshape)
        if source is None or target is None or self.rank(source) != len(target):
            return False
        return self.differing(target, [self.of(source, axis) for axis in range(len(target))]) <= 1

    def differing(self, asked: Sequence[Size], own: Sequence[Size]) -> int:
        """How many of the sizes that a Reshape asks for are not shown to be these."""
        return sum(one is None or one not in (0, size) for one, size in zip(asked, own, strict=True))

    def _rank(self, node: ir.Node) -> int | None:
        if node.domain == "com.microsoft" and node.op_type in ("MultiHeadAttention", "RotaryEmbedding"):
            return self.rank(node.inputs[0])
        order = permutation(node)
        if node.domain not in ("", "ai.onnx") or order is not None:
            return len(order) if order is not None else None
        if node.op_type in ("Reshape", "Expand"):
            target = self.target(node)
            asked = len(target) if target is not None else None
            return asked if node.op_type == "Reshape" else _highest([asked, self.rank(node.inputs[0])])
        if node.op_type in BROADCAST:
            return _highest([self.rank(value) for value in node.inputs])
        same = node.op_type in _SAME_SHAPE or node.op_type in ("Concat", "Slice", "Split")
        return self.rank(node.inputs[0]) if same else None

    def _of(self, value: ir.Value, axis: int) -> Size:
        if value in self._same:
            return self.of(self._same[value], axis)
        declared = value.shape[axis] if value.shape is not None and axis < len(value.shape) else None
        if isinstance(declared, int):
            return declared
        node = value.producer()
        rule = self._rule(node) if node is not None else None
        found = rule(node, axis) if rule is not None and node is not None else None
        if found is not None:
            return found
        name = declared.value if declared is not None else None
        if name is None or name.startswith(_MADE_UP):
            return AxisOrigin(value, axis)
        return self._named.setdefault(name, AxisOrigin(value, axis))

    def _rule(self, node: ir.Node) -> Callable[[ir.Node, int], Size] | None:
        if node.domain == "com.microsoft":
            return {"MultiHeadAttention": self._of_attention, "RotaryEmbedding": self._of_first}.get(node.op_type)
        if node.domain not in ("", "ai.onnx"):
            return None
        if node.op_type in _SAME_SHAPE:
            return self._of_first
        if node.op_type in BROADCAST:
            return self._of_broadcast
        return {
            "Concat": self._of_concat,
            "Expand": self._of_expand,
            "Gather": self._of_gather,
            "MatMul": self._of_product,
            "Range": self._of_range,
            "Reshape": self._of_reshape,
            "Slice": self._of_slice,
            "Split": self._of_split,
            "Transpose": self._of_transpose,
            "Unsqueeze": self._of_unsqueeze,
        }.get(node.op_type)

    def _of_first(self, node: ir.Node, axis: int) -> Size:
        return self.of(node.inputs[0], axis)

    def _of_attention(self, node: ir.Node, axis: int) -> Size:
        if axis < 2:
            return self.of(node.inputs[0], axis)
        values = node.inputs[2]
        if self.rank(values) != 4:
            return self.of(values, 2) if self.rank(values) == 3 else None
        size = self.of(values, 3)
        return size * node.attributes.get_int("num_heads", 1) if isinstance(size, int) else None

    def _of_transpose(self, node: ir.Node, axis: int) -> Size:
        order = permutation(node)
        return self.of(node.inputs[0], order[axis]) if order is not None else None

    def _of_reshape(self, node: ir.Node, axis: int) -> Size:
        target = self.target(node)
        size = target[axis] if target is not None and axis < len(target) else None
        if size == 0:
            return self.of(node.inputs[0], axis) if not node.attributes.get_int("allowzero", 0) else None
        return self._left_over(node, target) if size == -1 and target is not None else size

    def _left_over(self, reshape: ir.Node, target: list[Size]) -> Size:
        """What -1 stands for: the sizes that only the input has, over those that only the target has."""
        axes = self.rank(reshape.inputs[0])
        if axes is None:
            return None
        own = [self.of(reshape.inputs[0], axis) for axis in range(axes)]
        asked = [own[axis] if size == 0 and axis < axes else size for axis, size in enumerate(target) if size != -1]
        for size in list(asked):
            if size in own:
                own.remove(size)
                asked.remove(size)
        unknown, above = _split(own)
        unknown_asked, below = _split(asked)
        if unknown_asked or not below or above % below:
            return None
        if not unknown:
            return above // below
        return unknown[0] if len(unknown) == 1 and above == below else None

    def _of_slice(self, node: ir.Node, axis: int) -> Size:
        cut, axes = small_constant(node.inputs[3]) if len(node.inputs) > 3 else None, self.rank(node.inputs[0])
        if cut is None or axes is None or axis in {int(one) % axes for one in cut.reshape(-1)}:
            return None
        return self.of(node.inputs[0], axis)

    def _of_split(self, node: ir.Node, axis: int) -> Size:
        axes = self.rank(node.inputs[0])
        cut = node.attributes.get_int("axis", 0)
        return self.of(node.inputs[0], axis) if axes is not None and cut % axes != axis else None

    def _of_concat(self, node: ir.Node, axis: int) -> Size:
        axes = self.rank(node.outputs[0])
        along = node.attributes.get_int("axis", 0)
        if axes is None or along % axes == axis:
            return None
        return self.of(node.inputs[0], axis)

    def _of_expand(self, node: ir.Node, axis: int) -> Size:
        target, axes = self.target(node), self.rank(node.inputs[0])
        if target is None or axes is None or axes > len(target):
            return None
        return _broadcast([target[axis], self._aligned(node.inputs[0], axis, len(target))])

    def _of_broadcast(self, node: ir.Node, axis: int) -> Size:
        axes = self.rank(node.outputs[0])
        return None if axes is None else _broadcast([self._aligned(value, axis, axes) for value in node.inputs])

    def _aligned(self, value: ir.Value | None, axis: int, axes: int) -> Size:
        """The size of an operand at an axis of the result that it is broadcast to."""
        own = self.rank(value)
        if own is None:
            return None
        return 1 if axis < axes - own else self.of(value, axis - (axes - own))

    def _of_gather(self, node: ir.Node, axis: int) -> Size:
        axes = self.rank(node.inputs[1])
        first = node.attributes.get_int("axis", 0) == 0
        return self.of(node.inputs[1], axis) if first and axes is not None and axis < axes else None

    def _of_range(self, node: ir.Node, _: int) -> Size:
        return self.single(node.inputs[1]) if (scalar(node.inputs[0]), scalar(node.inputs[2])) == (0, 1) else None

    def _of_unsqueeze(self, node: ir.Node, axis: int) -> Size:
        added, axes = small_constant(node.inputs[1]) if len(node.inputs) > 1 else None, self.rank(node.outputs[0])
        if added is None or not axes:
            return None
        places = {int(one) % axes for one in added.reshape(-1)}
        return 1 if axis in places else self.of(node.inputs[0], axis - sum(place < axis for place in places))

    def _of_product(self, node: ir.Node, axis: int) -> Size:
        left, right = node.inputs[0], node.inputs[1]
        axes, columns = self.rank(left), self.rank(right)
        if axes is None or axes != self.rank(node.outputs[0]):
            return None
        if axis == axes - 1:
            return self.of(right, columns - 1) if columns else None
        size = self.of(left, axis)
        return size if axis == axes - 2 else _broadcast([size, self._aligned(right, axis, axes)])

    def single(self, value: ir.Value | None) -> Size:
        """What an integer tensor of one element holds, e.g. one part of a Reshape's target."""
        known = scalar(value)
        if known is not None:
            return int(known)
        node = producer(value)
        if node is None:
            return None
        if node.op_type in ("Unsqueeze", "Squeeze", "Cast", "Identity", "Reshape"):
            return self.single(node.inputs[0])
        if node.op_type == "Div":
            above, below = self.single(node.inputs[0]), self.single(node.inputs[1])
            return above // below if isinstance(above, int) and isinstance(below, int) and below > 0 else None
        sizes = self._part_of_shape(node)
        return sizes[0] if sizes is not None and len(sizes) == 1 else None

    def _listed(self, target: ir.Value | None) -> list[Size] | None:
        """What a vector of sizes holds."""
        array = small_constant(target)
        if array is not None:
            return [int(size) for size in array.reshape(-1)]
        node = producer(target)
        if node is None:
            return None
        if node.op_type in ("Reshape", "Cast", "Identity"):
            return self._listed(node.inputs[0])
        if node.op_type == "Where":
            sizes, test = self._listed(node.inputs[2]), producer(node.inputs[0], "Equal")
            is_idiom = test is not None and test.inputs[0] is node.inputs[2] and filled_with(test.inputs[1]) == -1
            is_known = sizes is not None and is_idiom and filled_with(node.inputs[1]) == 1
            return [1 if size == -1 else size for size in sizes or ()] if is_known else None
        if node.op_type != "Concat":
            return self._part_of_shape(node)
        found: list[Size] = []
        for part in node.inputs:
            several, source = small_constant(part), producer(part)
            if several is not None:
                found += [int(size) for size in several.reshape(-1)]
            else:
                sizes = self._part_of_shape(source) if source is not None else None
                found += sizes or [self.single(part)]
        return found

    def _part_of_shape(self, node: ir.Node) -> list[Size] | None:
        """The sizes that a Shape, or a Gather or Slice of one, returns."""
        if node.op_type == "Shape":
            axes = self.rank(node.inputs[0])
            if axes is None:
                return None
            start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", axes)
            return [self.of(node.inputs[0], axis) for axis in range(axes)[start:end]]
        shape = producer(node.inputs[0], "Shape") if node.op_type in ("Gather", "Slice") else None
        whole = self._part_of_shape(shape) if shape is not None else None
        bounds = [small_constant(part) for part in node.inputs[1:3]]
        if whole is None or not bounds or any(array is None or array.size != 1 for array in bounds):
            return None
        first, *last = (int(array.reshape(())) for array in bounds if array is not None)
        if node.op_type == "Gather":
            return [whole[first]] if -len(whole) <= first < len(whole) else None
        plain = all(part is None or scalar(part) in (0, 1) for part in node.inputs[3:])
        return whole[first : last[0]] if plain else None


def _split(sizes: list[Size]) -> tuple[list[Size], int]:
    """Those that are no numbers, and the product of those that are."""
    numbers = [size for size in sizes if isinstance(size, int)]
    return [size for size in sizes if not isinstance(size, int)], math.prod(numbers)


def _highest(ranks: Sequence[int | None]) -> int | None:
    known = [one for one in ranks if one is not None]
    return max(known) if len(known) == len(ranks) > 0 else None


def _broadcast(sizes: list[Size]) -> Size:
    """The size that operands of these sizes are broadcast to."""
    longer = [size for size in sizes if size != 1]
    fixed = next((size for size in longer if isinstance(size, int) and size > 1), None)
    if fixed is not None or not longer:
        return fixed or 1
    return longer[0] if all(size == longer[0] for size in longer) else None
