"""Finds attention in a graph, whoever exported it.

The pattern, anchored at the Softmax; everything in brackets may be absent, ``*`` is a constant scale anywhere::

    scores = MatMul(q[*], transposed(k)[*]) [*] [+ mask]            or Where(seen, scores, -big) for the mask
    weights = Softmax(scores)               [Where(IsNaN(weights), 0, weights)]
    y = MatMul(weights, v)                  q, k, v and y are [batch, heads, sequence, head size]

``transposed(k)`` is a Transpose, or Reshape-Transpose-Reshape as the dynamo exporter writes it. Where ``k`` and ``v``
are each head repeated (Reshape(Expand(Unsqueeze(k, 2)))), the block says what they were before that.
"""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from optim_plugins.ort.dimensions import constant, rank, scalar, size_of, target_sizes

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


def find_attention(graph: ir.Model) -> tuple[list[Attention], list[str]]:
    """Every attention block, and for each other Softmax between two products why it is none."""
    found: list[Attention] = []
    missed: list[str] = []
    for node in graph.graph:
        if node.op_type != "Softmax" or node.domain not in ("", "ai.onnx"):
            continue
        block = _match(node)
        if isinstance(block, Attention):
            found.append(block)
        elif block is not None:
            missed.append(f"{node.name or node.outputs[0].name}: {block}")
    return found, missed


def _match(softmax: ir.Node) -> Attention | str | None:
    """The block; why it is none; None where this Softmax is not between two products at all."""
    product, scale, mask, hidden_where = _scores(softmax.inputs[0])
    weights, guarded = _weights(softmax)
    second = _only_reader(weights, "MatMul") if weights is not None else None
    if product is None or second is None or second.inputs[0] is not weights:
        return "its weights are read elsewhere too" if product is not None and weights is None else None
    if rank(softmax.outputs[0]) not in (None, 4) or softmax.attributes.get_int("axis", -1) not in (-1, 3):
        return "it is not over the last of four axes"
    query, query_scale = _unscaled(product.inputs[0])
    key, key_scale = _untransposed(product.inputs[1])
    value = second.inputs[1]
    if query is None or key is None or value is None:
        return "its keys are not a transposed tensor"
    heads, head_size = _number(query, 1), _number(query, 3)
    if head_size is None:
        head_size = _number(key, 3)
    key, value = _before_repeating(key), _before_repeating(value)
    key_heads = _number(key, 1)
    if heads is None or head_size is None:
        return "its number of heads or their size is not fixed"
    if _number(value, 3) != head_size:
        return "heads of its values have another size than those of its keys"
    if key_heads is None or _number(value, 1) != key_heads or heads % key_heads:
        return "keys and values do not have the same, fixed number of heads"
    return Attention(
        query, key, value, mask, hidden_where, scale * query_scale * key_scale, heads, key_heads, head_size, guarded,
        second.outputs[0], softmax,
    )  # fmt: skip


def _scores(value: ir.Value | None) -> tuple[ir.Node | None, float, ir.Value | None, bool | None]:
    """From the Softmax up to the first product: the product, the scale, the mask, and how the mask hides."""
    mask: ir.Value | None = None
    hidden_where: bool | None = None
    value, scale = _unscaled(value)
    node = value.producer() if value is not None else None
    if node is not None and scale == 1.0 and node.op_type in ("Add", "Where"):
        if node.op_type == "Add":
            sides = [side for side in node.inputs if side is not None]
            below = next((side for side in sides if _comes_from_product(side)), None)
            mask = next((side for side in sides if side is not below), None)
        else:
            low = [position for position in (1, 2) if (number := scalar(node.inputs[position])) is not None and number <= _NEVER_SEEN]
            if len(low) != 1:
                return None, 1.0, None, None
            below, mask, hidden_where = node.inputs[3 - low[0]], node.inputs[0], low[0] == 1
        value, scale = _unscaled(below)
        node = value.producer() if value is not None else None
    is_product = node is not None and node.op_type == "MatMul" and node.domain in ("", "ai.onnx")
    return (node if is_product else None), scale, mask, hidden_where


def _comes_from_product(value: ir.Value) -> bool:
    unscaled, _ = _unscaled(value)
    node = unscaled.producer() if unscaled is not None else None
    return node is not None and node.op_type == "MatMul" and constant(node.inputs[1]) is None


def _unscaled(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """A value without the constant factors put on it, and their product."""
    scale = 1.0
    while value is not None and (node := value.producer()) is not None:
        if node.op_type == "Identity":
            value = node.inputs[0]
        elif node.op_type in ("Mul", "Div"):
            factor = scalar(node.inputs[1])
            if factor is None and node.op_type == "Mul":
                factor, rest = scalar(node.inputs[0]), node.inputs[1]
            else:
                rest = node.inputs[0]
            if factor is None or factor == 0:
                break
            value, scale = rest, scale * factor if node.op_type == "Mul" else scale / factor
        else:
            break
    return value, scale


def _untransposed(value: ir.Value | None) -> tuple[ir.Value | None, float]:
    """``k`` of ``transposed(k)``, and the constant factors on the way; None where it is not transposed."""
    value, outer = _unscaled(value)
    node = value.producer() if value is not None else None
    source: ir.Value | None = None
    if node is not None and node.op_type == "Transpose" and list(node.attributes.get_ints("perm", [])) == [0, 1, 3, 2]:
        source = node.inputs[0]
    elif node is not None and node.op_type == "Reshape":
        source = _through_three_axes(node)
    source, inner = _unscaled(source)
    return source, outer * inner


def _through_three_axes(node: ir.Node) -> ir.Value | None:
    """``k`` of Reshape(Transpose(Reshape(k, [-1, total, size]), [0, 2, 1]), [batch, heads, size, total])."""
    middle = node.inputs[0].producer() if node.inputs[0] is not None else None
    if middle is None or middle.op_type != "Transpose" or list(middle.attributes["perm"].as_ints()) != [0, 2, 1]:
        return None
    first = middle.inputs[0].producer() if middle.inputs[0] is not None else None
    if first is None or first.op_type != "Reshape" or first.inputs[0] is None or rank(first.inputs[0]) != 4:
        return None
    source = first.inputs[0]
    flat, full = target_sizes(first), target_sizes(node)
    if flat is None or full is None or len(flat) != 3 or len(full) != 4:
        return None
    total, size = size_of(source, 2), size_of(source, 3)
    return source if flat[1:] == [total, size] and full[2:] == [size, total] else None


def _before_repeating(value: ir.Value) -> ir.Value:
    """Keys or values before each head was repeated; themselves where none was."""
    node = value.producer()
    expand = node.inputs[0].producer() if node is not None and node.op_type == "Reshape" and node.inputs[0] is not None else None
    if expand is None or expand.op_type != "Expand" or expand.inputs[0] is None:
        return value
    lift = expand.inputs[0].producer()
    if lift is None or lift.op_type != "Unsqueeze" or lift.inputs[0] is None or scalar(lift.inputs[1]) != 2:
        return value
    return lift.inputs[0] if rank(lift.inputs[0]) == 4 else value


def _weights(softmax: ir.Node) -> tuple[ir.Value | None, bool]:
    """What is multiplied with the values, and whether NaN in it was replaced by 0; None where others read it too."""
    out = softmax.outputs[0]
    readers = {use.node for use in out.uses()}
    if out.is_graph_output():
        return None, False
    guard = next((node for node in readers if node.op_type == "IsNaN"), None)
    if guard is not None:
        choice = _only_reader(guard.outputs[0], "Where")
        if choice is None or choice.inputs[2] is not out or scalar(choice.inputs[1]) != 0 or readers != {guard, choice}:
            return None, False
        return choice.outputs[0], True
    while (step := _only_reader(out, "Identity", "Dropout")) is not None:
        out = step.outputs[0]
    return (out if _only_reader(out, "MatMul") is not None else None), False


def _only_reader(value: ir.Value, *operators: str) -> ir.Node | None:
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output() or uses[0].node.op_type not in operators:
        return None
    return uses[0].node


def _number(value: ir.Value, axis: int) -> int | None:
    size = size_of(value, axis)
    return size if isinstance(size, int) else None
