"""Finds attention in a graph, whoever exported it.

The pattern, anchored at the Softmax; everything in brackets may be absent, ``*`` is a constant scale anywhere::

    scores = MatMul(q[*], transposed(k)[*]) [*] [+ mask]            or Where(seen, scores, -big) for the mask
    weights = Softmax(scores)               [Where(IsNaN(weights), 0, weights)]
    y = MatMul(weights, v)                  q, k, v and y are [batch, heads, sequence, head size]

``transposed(k)`` is a Transpose, or Reshape-Transpose-Reshape as the dynamo exporter writes it. Where ``k`` and ``v``
are each head repeated (Reshape(Expand(Unsqueeze(k, 2)))), the block says what they were before that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir as ir

from optim.onnx import only_reader
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import permutation, producer, scalar, small_constant
from optim_plugins.ort.prepare.fold_constants import is_random

_KNOWN = {"Softmax": ("axis",)}
"""MatMul has none."""

_NEVER_SEEN = -1e4
"""A masked score is at most this."""


@dataclass(frozen=True)
class Attention:
    """One attention block.

    Attributes:
        query: [batch, heads, sequence, head size], unscaled.
        key: [batch, key heads, total, head size], unscaled, not transposed.
        value: as key.
        mask: what is added to the scores, broadcast to [batch, heads, sequence, total]; or None.
        hidden_where: with ``mask`` a condition: the scores it hides (True: those where the condition is False).
        scale: of the scores.
        heads: of the query.
        key_heads: fewer than ``heads`` where each key head serves several.
        head_size: last axis of query, key and value.
        zero_where_blind: a row that sees nothing gives 0, not NaN.
        output: what the block computes, [batch, heads, sequence, head size].
        softmax: the anchor.
    """

    query: ir.Value
    key: ir.Value
    value: ir.Value
    mask: ir.Value | None
    hidden_where: bool | None
    scale: float
    heads: int
    key_heads: int
    head_size: int
    zero_where_blind: bool
    output: ir.Value
    softmax: ir.Node


def find_attention(
    graph: ir.Model, sizes: Sizes, dtypes: Collection[ir.DataType] = (ir.DataType.FLOAT,)
) -> tuple[list[Attention], list[str]]:
    """Every attention block, and for each other Softmax before a product why it is none.

    Args:
        graph: to be searched.
        sizes: of the graph.
        dtypes: that the operator computes in which takes its place.
    """
    matcher = _Matcher(sizes, graph.graph.opset_imports.get("", 1), dtypes)
    found: list[Attention] = []
    missed: list[str] = []
    for node in graph.graph:
        if node.op_type != "Softmax" or node.domain not in ("", "ai.onnx"):
            continue
        block = matcher.match(node)
        if isinstance(block, Attention):
            found.append(block)
        elif block is not None:
            missed.append(f"{node.name or node.outputs[0].name}: {block}")
    return found, missed


class _Matcher:
    def __init__(self, sizes: Sizes, opset: int, dtypes: Collection[ir.DataType]) -> None:
        self._sizes = sizes
        self._dtypes = dtypes
        self._default_axis = -1 if opset >= 13 else 1

    def match(self, softmax: ir.Node) -> Attention | str | None:
        """The block; why it is none; None where this Softmax weighs nothing."""
        weights, guarded = _weights(softmax)
        if weights is None:
            return None
        second = only_reader(weights, "MatMul")
        if second is None or second.inputs[0] is not weights:
            return "its weights are read by more than the product with the values"
        scores = _scores(softmax.inputs[0])
        if scores is None:
            return "its scores are not a product of queries and keys, scaled and then masked"
        if not are_known((softmax, second), _KNOWN):
            return None  # the node keeps the reason
        axis = softmax.attributes.get_int("axis", self._default_axis)
        if self._sizes.rank(softmax.outputs[0]) not in (None, 4) or axis not in (-1, 3):
            return "it is not over the last of four axes"
        if softmax.outputs[0].dtype not in (None, *self._dtypes):
            return f"its numbers are not {' or '.join(dtype.numpy().name for dtype in self._dtypes)}"
        query, query_scale = _unscaled(scores.product.inputs[0])
        key, key_scale = self._untransposed(scores.product.inputs[1])
        value = second.inputs[1]
        if query is None or key is None or value is None:
            return "its keys are not a transposed tensor"
        heads, head_size = self._sizes.number(query, 1), self._sizes.number(query, 3) or self._sizes.number(key, 3)
        key, value = self._before_repeating(key), self._before_repeating(value)
        key_heads = self._sizes.number(key, 1)
        if heads is None or head_size is None or key_heads is None:
            return "its number of heads or their size is not fixed"
        if self._sizes.number(value, 3) != head_size:
            return "heads of its values have another size than those of its keys"
        if self._sizes.number(value, 1) != key_heads or heads % key_heads:
            return "keys and values have different numbers of heads"
        return Attention(
            query=query,
            key=key,
            value=value,
            mask=scores.mask,
            hidden_where=scores.hidden_where,
            scale=scores.scale * query_scale * key_scale,
            heads=heads,
            key_heads=key_heads,
            head_size=head_size,
            zero_where_blind=guarded,
            output=second.outputs[0],
            softmax=softmax,
        )

    def _untransposed(self, value: ir.Value | None) -> tuple[ir.Value | None, float]:
        """``k`` of ``transposed(k)``, and the constant factors on the way; None where it is not transposed."""
        value, outer = _unscaled(value)
        node = producer(value, "Transpose", "Reshape")
        source: ir.Value | None = None
        if node is not None and permutation(node) == [0, 1, 3, 2]:
            source = node.inputs[0]
        elif node is not None and node.op_type == "Reshape":
            source = self._through_three_axes(node)
        source, inner = _unscaled(source)
        return source, outer * inner

    def _through_three_axes(self, node: ir.Node) -> ir.Value | None:
        """``k`` of Reshape(Transpose(Reshape(k, [-1, total, size]), [0, 2, 1]), [batch, heads, size, total])."""
        middle = producer(node.inputs[0], "Transpose")
        if middle is None or permutation(middle) != [0, 2, 1]:
            return None
        first = producer(middle.inputs[0], "Reshape")
        source = first.inputs[0] if first is not None else None
        if first is None or source is None or self._sizes.rank(source) != 4:
            return None
        flat, full = self._sizes.target(first), self._sizes.target(node)
        if flat is None or full is None or len(flat) != 3 or len(full) != 4:
            return None
        total, size = self._sizes.of(source, 2), self._sizes.of(source, 3)
        return source if flat[1:] == [total, size] and full[2:] == [size, total] else None

    def _before_repeating(self, value: ir.Value) -> ir.Value:
        """Keys or values before each head was repeated; themselves where none was."""
        merge = producer(value, "Reshape")
        expand = producer(merge.inputs[0], "Expand") if merge is not None else None
        lift = producer(expand.inputs[0], "Unsqueeze") if expand is not None else None
        source = lift.inputs[0] if lift is not None and _lifted_axis(lift) == 2 else None
        return source if source is not None and self._sizes.rank(source) == 4 else value


@dataclass(frozen=True)
class _Scores:
    """What goes into the Softmax; mask and hidden_where as in :class:`Attention`."""

    product: ir.Node
    scale: float
    mask: ir.Value | None
    hidden_where: bool | None


def _scores(value: ir.Value | None) -> _Scores | None:
    value, scale = _unscaled(value)
    node = producer(value, "Add", "Where", "MatMul")
    mask: ir.Value | None = None
    hidden_where: bool | None = None
    if node is not None and node.op_type != "MatMul" and scale == 1.0:
        below: ir.Value | None = None
        if node.op_type == "Add":
            below = next((side for side in node.inputs if _comes_from_product(side)), None)
            mask = next((side for side in node.inputs if side is not below), None)
        else:
            low = [at for at in (1, 2) if (number := scalar(node.inputs[at])) is not None and number <= _NEVER_SEEN]
            if len(low) == 1:
                below, mask, hidden_where = node.inputs[3 - low[0]], node.inputs[0], low[0] == 1
        value, scale = _unscaled(below)
        node = producer(value, "MatMul")
    return _Scores(node, scale, mask, hidden_where) if node is not None and node.op_type == "MatMul" else None


def _comes_from_product(value: ir.Value | None) -> bool:
    node = producer(_unscaled(value)[0], "MatMul")
    return node is not None and small_constant(node.inputs[1]) is None


def _unscaled(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """A value without the constant factors put on it, and their product."""
    scale = 1.0
    while (node := producer(value, "Identity", "Mul", "Div")) is not None:
        factor, rest = (1.0, node.inputs[0]) if node.op_type == "Identity" else (scalar(node.inputs[1]), node.inputs[0])
        if factor is None and node.op_type == "Mul":
            factor, rest = scalar(node.inputs[0]), node.inputs[1]
        if not factor:
            break
        value, scale = rest, scale / factor if node.op_type == "Div" else scale * factor
    return value, scale


def _weights(softmax: ir.Node) -> tuple[ir.Value | None, bool]:
    """What the Softmax hands to a product, and whether NaN in it was replaced by 0; None where there is no product."""
    out = softmax.outputs[0]
    guard = next((use.node for use in out.uses() if use.node.op_type == "IsNaN"), None)
    if guard is not None:
        choice = only_reader(guard.outputs[0], "Where")
        if choice is None or choice.inputs[2] is not out or scalar(choice.inputs[1]) != 0:
            return None, False
        readers = {use.node for use in out.uses()}
        out = choice.outputs[0] if readers == {guard, choice} and not out.is_graph_output() else out
    while (step := only_reader(out, "Identity", "Dropout")) is not None and not is_random(step):
        out = step.outputs[0]
    return (out if any(use.node.op_type == "MatMul" for use in out.uses()) else None), guard is not None


def _lifted_axis(unsqueeze: ir.Node) -> float | None:
    """The one axis that an Unsqueeze adds: an input since opset 13, an attribute before."""
    if len(unsqueeze.inputs) > 1:
        return scalar(unsqueeze.inputs[1])
    axes = unsqueeze.attributes.get_ints("axes", [])
    return axes[0] if len(axes) == 1 else None
