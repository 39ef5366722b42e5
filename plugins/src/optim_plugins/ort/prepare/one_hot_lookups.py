"""Rows of a weight taken by number, where an exporter wrote a product with a one-hot matrix.

jax and TensorFlow embed small vocabularies so. Before, ``ids`` [..., 1] and ``w`` [n, d]::

    MatMul(Cast(Equal(ids, [0, 1, ..., n - 1])), w)                                     [..., d]

After, with a row of zeros on both sides for numbers that no row has, ``zero`` [1, d]::

    Gather(Concat(zero, w, zero), Clip(Squeeze(ids, -1) + 1, 0, n + 1))

Each number of the result is the same one: a product with one 1 and zeros otherwise rounds nothing. The runtime joins
the rows once, when it opens the model. A sum that wraps around ends below zero, at a row of zeros too.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.onnx import only_reader, read_constant
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

_MOST_ROWS = 16 << 10
"""Longer lists of numbers are not read: an embedding of so many is a Gather in all exports that were looked at."""

_FIRST_OPSET = 13
"""Since then Squeeze takes its axes, and Clip integers, as inputs."""

_COUNTING = (np.dtype(np.int32), np.dtype(np.int64))

_KNOWN: dict[str, tuple[str, ...]] = {}
"""MatMul has no attribute."""


def look_up_one_hots(graph: ir.Model) -> int:
    """Rewrite in place; how many products went. What only they read is left for whoever drops unused nodes."""
    writer = NodeWriter(graph, "one_hot")
    if writer.opset < _FIRST_OPSET:
        return 0
    return sum(_look_up(node, writer) for node in list(graph.graph) if node.op_type == "MatMul" and not node.domain)


def _look_up(product: ir.Node, writer: NodeWriter) -> bool:
    hot, weight = product.inputs
    ids = _numbers(hot, product)
    rows = read_constant(weight) if ids is not None else None
    if ids is None or weight is None or rows is None or rows.ndim != 2 or rows.dtype.kind != "f":
        return False
    source, count = ids
    if len(rows) != count or not np.isfinite(rows).all() or not are_known([product], _KNOWN):
        return False
    writer.before = product
    zero = writer.constant(np.zeros((1, rows.shape[1]), rows.dtype))
    one, last = (writer.constant(np.array(number, _type(source))) for number in (1, count + 1))
    none = writer.constant(np.array(0, _type(source)))
    found = writer.add("Squeeze", [source, writer.integers([-1])])
    found = writer.add("Clip", [writer.add("Add", [found, one]), none, last])
    table = writer.add("Concat", [zero, weight, zero], axis=0)
    take_over(product.outputs[0], writer.add("Gather", [table, found], axis=0))
    return True


def _type(value: ir.Value) -> np.dtype[np.generic]:
    assert value.dtype is not None
    return value.dtype.numpy()


def _numbers(hot: ir.Value | None, product: ir.Node) -> tuple[ir.Value, int] | None:
    """The numbers, [..., 1], and how many there are, of a one-hot matrix that only the product reads."""
    cast = producer(hot, "Cast")
    equal = producer(cast.inputs[0], "Equal") if cast is not None else None
    if cast is None or equal is None or only_reader(cast.outputs[0]) is not product:
        return None
    for source, other in (equal.inputs, equal.inputs[::-1]):
        counted = read_constant(other, at_most=_MOST_ROWS)
        if source is None or source.shape is None or counted is None or counted.dtype not in _COUNTING:
            continue
        fits = 1 <= counted.ndim <= source.shape.rank() and source.shape[-1] == 1 and counted.size == counted.shape[-1]
        if fits and source.dtype is not None and np.array_equal(counted.reshape(-1), np.arange(counted.size)):
            return source, counted.size
    return None
