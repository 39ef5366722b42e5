"""Masks as ``com.microsoft.MultiHeadAttention`` takes them: finite numbers to add, with rows and columns of their own.

Before, in what exporters write::

    scores + Where(seen, 0, -inf)        seen [b, 1, 1, t], [s, t], ... whatever is broadcast to [b, h, s, t]

After::

    attention_bias = Expand(Where(seen, 0, lowest), [1, 1, s, 1])

-inf would make a row that sees nothing NaN in the operator, so it becomes the lowest number. Where the graph turned
such rows into 0, a Where does that again; but only where rows differ in what they see: in any other mask, a row that
sees nothing means that the whole sample is padding.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.fuse.attention_pattern import Attention
from optim_plugins.ort.graph.dimensions import AxisOrigin, Size, Sizes
from optim_plugins.ort.graph.known_values import producer, scalar, small_constant
from optim_plugins.ort.graph.node_writer import NodeWriter

_ORDERS = frozenset(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"))


class Masks:
    """Masks of a graph: all layers share one, so each is written once."""

    def __init__(self, writer: NodeWriter, sizes: Sizes) -> None:
        self._writer = writer
        self._sizes = sizes
        self._additive: dict[tuple[ir.Value, bool | None, bool], ir.Value] = {}
        self._whole: dict[tuple[ir.Value, Size, int], ir.Value] = {}
        self._seen: dict[ir.Value, ir.Value] = {}

    def heads(self, mask: ir.Value) -> Size:
        """The size of a mask at the axis of heads; 1 where it has no such axis."""
        axes = self._sizes.rank(mask)
        return None if axes is None else self._sizes.of(mask, axes - 3) if axes >= 3 else 1

    def bias(self, block: Attention) -> ir.Value | None:
        """The mask of a block as its attention bias, [batch or 1, heads or 1, rows, total]; None where it has none."""
        if block.mask is None:
            return None
        mask, group = self._finite(block, block.mask), block.heads // block.key_heads
        rows, axes = self._sizes.of(block.query, 2), self._sizes.rank(block.mask)
        key = (mask, rows, group)
        if key not in self._whole:
            has_columns = axes is not None and axes > 0 and self._sizes.of(block.mask, axes - 1) != 1
            has_rows = axes == 4 and rows is not None and self._sizes.of(block.mask, 2) == rows
            whole = mask if has_rows and has_columns else self._expanded(block, mask, has_columns)
            self._whole[key] = self._writer.add("Concat", [whole] * group, axis=2) if group > 1 else whole
        return self._whole[key]

    def blank(self, block: Attention, heads: ir.Value) -> ir.Value | None:
        """What a block computes, [batch, sequence, heads, head size], with 0 in rows that see nothing.

        None where no row needs that.
        """
        if block.mask is None or not _lowers(block, block.mask) or not _rows_may_differ(block.mask):
            return None
        mask, writer = self._finite(block, block.mask), self._writer
        if mask not in self._seen:
            if writer.opset >= 18:
                highest = writer.add("ReduceMax", [mask, writer.integers([-1])], keepdims=1)
            else:
                highest = writer.add("ReduceMax", [mask], axes=[-1], keepdims=1)
            seen = writer.add("Greater", [highest, writer.constant(_lowest(block))])
            if self._sizes.rank(block.mask) != 4:
                ones = writer.integers([1, 1, 1, 1])
                seen = writer.add("Expand", [seen, ones])
            self._seen[mask] = writer.transpose(seen, [0, 2, 1, 3])
        return writer.add("Where", [self._seen[mask], heads, writer.constant(_dtype(block)(0))])

    def _finite(self, block: Attention, mask: ir.Value) -> ir.Value:
        """The mask as numbers to add, none of them infinite where that would show."""
        key = (mask, block.hidden_where, _lowers(block, mask))
        if key not in self._additive:
            as_it_is = key[1:] == (None, False)
            self._additive[key] = mask if as_it_is else self._lowered(block, mask)
        return self._additive[key]

    def _lowered(self, block: Attention, mask: ir.Value) -> ir.Value:
        zero, lowest = self._writer.constant(_dtype(block)(0)), self._writer.constant(_lowest(block))
        if block.hidden_where is not None:
            return self._writer.add("Where", [mask, lowest, zero] if block.hidden_where else [mask, zero, lowest])
        node = producer(mask, "Where")
        hiding = [scalar(side) == -np.inf for side in node.inputs[1:]] if node is not None else []
        if node is None or not any(hiding):
            return self._writer.add("Max", [mask, lowest])
        sides = [lowest if hides else side for hides, side in zip(hiding, node.inputs[1:], strict=True)]
        return self._writer.add("Where", [node.inputs[0], *sides])

    def _expanded(self, block: Attention, mask: ir.Value, has_columns: bool) -> ir.Value:
        one = self._writer.integers([1])
        columns = one if has_columns else self._size(block.key, 2)
        target = self._writer.add("Concat", [one, one, self._size(block.query, 2), columns], axis=0)
        return self._writer.add("Expand", [mask, target])

    def _size(self, value: ir.Value, axis: int) -> ir.Value:
        """A size, read where it comes from: reading it off a projection would keep that alive."""
        size = self._sizes.of(value, axis)
        if isinstance(size, int):
            return self._writer.integers([size])
        return (
            self._writer.size(size.value, size.axis) if isinstance(size, AxisOrigin) else self._writer.size(value, axis)
        )


def _dtype(block: Attention) -> type[np.float16 | np.float32]:
    return np.float16 if block.softmax.outputs[0].dtype is ir.DataType.FLOAT16 else np.float32


def _lowest(block: Attention) -> np.floating:
    """The lowest number of the block's type."""
    return _dtype(block)(np.finfo(_dtype(block)).min)


def _lowers(block: Attention, mask: ir.Value) -> bool:
    """Whether a mask may hold -inf where the graph turns what comes of it into 0."""
    if not block.zero_where_blind or block.hidden_where is not None:
        return block.zero_where_blind
    node = mask.producer()
    if node is None or node.op_type != "Where":
        return True
    return any((array := small_constant(side)) is None or not np.isfinite(array).all() for side in node.inputs[1:])


def _is_constant(value: ir.Value | None) -> bool:
    return small_constant(value) is not None


def _rows_may_differ(mask: ir.Value) -> bool:
    """Whether one row of a mask can see what another cannot, as in a causal one.

    So it is where positions are compared with one another, or where a tensor with rows of its own comes in.
    """
    todo: list[ir.Value | None] = [mask]
    known: set[ir.Value] = set()
    while todo:
        value = todo.pop()
        if value is None or value in known:
            continue
        known.add(value)
        node = value.producer()
        if node is None:
            shape = value.const_value.shape if value.const_value is not None else value.shape
            if shape is None or sum(size != 1 for size in shape) > (1 if value.is_initializer() else 2):
                return True
        elif node.op_type == "Shape":
            continue
        elif node.op_type == "Trilu" or (node.op_type in _ORDERS and not any(map(_is_constant, node.inputs))):
            return True
        else:
            todo += node.inputs
    return False
