"""Rotary position embedding as one operator.

Before, for queries and keys of every layer, x [batch, heads, sequence, size], half = size / 2::

    y = x * cos + Concat(-x[..., half:], x[..., :half]) * sin
    cos, sin = Unsqueeze(Cos(Concat(a, a)), 1), Unsqueeze(Sin(Concat(a, a)), 1)         a [batch, sequence, half]

After, with the angles of all positions in one table that all layers share::

    y = com.microsoft.RotaryEmbedding(x, [[0, 1, ...], ...], Reshape(Cos(a), [-1, half]), Reshape(Sin(a), [-1, half]))

Method: Su et al. 2021, arXiv:2104.09864. Operator: onnxruntime ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer, scalar
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

_KNOWN: dict[str, tuple[str, ...]] = {}
"""Add has no attribute."""

_DTYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""The kernels compute in these."""


@dataclass(frozen=True)
class _Rotation:
    """One embedding: ``output`` of ``source``, with the angles' cosine and sine, [batch, sequence, size]."""

    source: ir.Value
    cosine: ir.Value
    sine: ir.Value
    output: ir.Value
    half: int


def fuse_rotary(graph: ir.Model) -> int:
    """Fuse every rotary embedding, in place; how many."""
    sizes = Sizes(graph)
    found = [one for node in graph.graph if (one := _match(node, sizes)) is not None]
    writer = NodeWriter(graph, "rotary")
    tables: dict[tuple[ir.Value, ir.Value], tuple[ir.Value, ir.Value, ir.Value]] = {}
    for one in found:
        writer.before = one.output.producer()
        key = (one.cosine, one.sine)
        if key not in tables:
            tables[key] = _table(writer, one)
        rotated = writer.add("RotaryEmbedding", [one.source, *tables[key]], domain="com.microsoft", interleaved=0)
        rotated.producer().metadata_props.update(one.output.producer().metadata_props)  # type: ignore[union-attr]
        take_over(one.output, rotated)
    if found:
        graph.graph.opset_imports.setdefault("com.microsoft", 1)
    return len(found)


def _match(node: ir.Node, sizes: Sizes) -> _Rotation | None:
    """The embedding that ends with this Add."""
    if node.op_type != "Add" or node.domain not in ("", "ai.onnx") or sizes.rank(node.outputs[0]) != 4:
        return None
    products = [producer(side, "Mul") for side in node.inputs]
    for straight, turned in (products, products[::-1]):
        if straight is None or turned is None:
            continue
        for crossed, sine in (turned.inputs, turned.inputs[::-1]):
            source, half = _turned(crossed, sizes)
            if source is None or source not in straight.inputs:
                continue
            cosine = straight.inputs[1 if straight.inputs[0] is source else 0]
            angles = [_angles(cosine, "Cos", sizes), _angles(sine, "Sin", sizes)]
            if angles[0] is None or angles[1] is None or not _one_for_each(angles[0], source, sizes):
                continue
            if source.dtype in _DTYPES and are_known([node], _KNOWN):
                return _Rotation(source, angles[0], angles[1], node.outputs[0], half)
    return None


def _one_for_each(angles: ir.Value, source: ir.Value, sizes: Sizes) -> bool:
    """Whether there is an angle for each place: the operator repeats none."""
    return sizes.of(angles, 1) != 1 or sizes.of(source, 2) == 1


def _turned(value: ir.Value | None, sizes: Sizes) -> tuple[ir.Value | None, int]:
    """``x`` and half its size, of Concat(-x[..., half:], x[..., :half])."""
    concat = producer(value, "Concat")
    if concat is None or len(concat.inputs) != 2 or concat.attributes.get_int("axis", 0) not in (-1, 3):
        return None, 0
    negative = producer(concat.inputs[0], "Neg")
    high = producer(negative.inputs[0], "Slice") if negative is not None else None
    low = producer(concat.inputs[1], "Slice")
    source = low.inputs[0] if low is not None else None
    if high is None or low is None or source is None or high.inputs[0] is not source:
        return None, 0
    size = sizes.number(source, 3)
    if size is None or size % 2 or _cut(low, sizes) != (0, size // 2) or not _reaches_end(_cut(high, sizes), size):
        return None, 0
    return source, size // 2


def _cut(node: ir.Node, sizes: Sizes) -> tuple[int, int] | None:
    """From where to where a Slice cuts the last of four axes; None if it does more than that."""
    if len(node.inputs) < 4 or scalar(node.inputs[3]) not in (-1, 3):
        return None
    if len(node.inputs) > 4 and node.inputs[4] is not None and scalar(node.inputs[4]) != 1:
        return None
    start, end = sizes.single(node.inputs[1]), sizes.single(node.inputs[2])
    return (start, end) if isinstance(start, int) and isinstance(end, int) else None


def _reaches_end(cut: tuple[int, int] | None, size: int) -> bool:
    return cut is not None and cut[0] == size // 2 and cut[1] >= size


def _angles(value: ir.Value | None, function: str, sizes: Sizes) -> ir.Value | None:
    """[batch, sequence, size] of Unsqueeze(..., 1), whose two halves are the same: function(Concat(a, a)), scaled."""
    lift = producer(value, "Unsqueeze")
    if lift is None or len(lift.inputs) < 2 or scalar(lift.inputs[1]) not in (1, -3):
        return None
    whole = lift.inputs[0]
    if sizes.rank(whole) not in (None, 3):
        return None
    node = producer(whole)
    while node is not None and node.op_type in ("Mul", "Cast", "Identity"):
        if node.op_type == "Mul" and scalar(node.inputs[1]) is None:
            return None
        node = producer(node.inputs[0])
    if node is None or node.op_type != function:
        return None
    twice = producer(node.inputs[0], "Concat")
    same = twice is not None and len(twice.inputs) == 2 and twice.inputs[0] is twice.inputs[1]
    return whole if same and twice is not None and twice.attributes.get_int("axis", 0) in (-1, 2) else None


def _table(writer: NodeWriter, one: _Rotation) -> tuple[ir.Value, ir.Value, ir.Value]:
    """For each position of each sample its row in the table; and the table's cosines and sines."""
    batch, rows = writer.size(one.cosine, 0), writer.size(one.cosine, 1)
    one_long = writer.integers([1])
    last = writer.add("Squeeze", [writer.add("Mul", [batch, rows]), writer.integers([0])])
    count = writer.add("Range", [writer.constant(np.int64(0)), last, writer.constant(np.int64(1))])
    grid = writer.add("Reshape", [count, writer.add("Concat", [batch, rows], axis=0)])
    whole_batch = writer.add("Concat", [writer.size(one.source, 0), one_long], axis=0)
    positions = writer.add("Expand", [grid, whole_batch])
    halves = (_half(writer, value, one.half) for value in (one.cosine, one.sine))
    return (positions, *halves)  # type: ignore[return-value]


def _half(writer: NodeWriter, angles: ir.Value, half: int) -> ir.Value:
    bounds = [writer.integers([number]) for number in (0, half, 2)]
    return writer.reshape(writer.add("Slice", [angles, *bounds]), [-1, half])
