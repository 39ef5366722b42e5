"""Attention as one operator, with its projections left as matrix products that quantization can reach.

Before (:mod:`optim_plugins.ort.attention_pattern` has every variant)::

    y = Reshape(Transpose(MatMul(Softmax(MatMul(q, k^T) * scale + mask), v), [0, 2, 1, 3]), [b, s, -1])

After::

    y = com.microsoft.MultiHeadAttention(q, k, v, attention_bias=mask, scale=scale)

``q`` is [batch, sequence, hidden]. ``k`` and ``v`` are too where they are heads split off a projection; where a past
was joined to them they stay [batch, heads, total, head size], which the operator takes as it is.

Grouped queries: where a key head serves ``g`` query heads, the exporter repeats keys and values ``g`` times. Here the
``g`` query heads become ``g`` times as many rows of one head instead, so that nothing is repeated::

    q [b, g * n, s, d]  ->  [b, n, g * s, d]          mask [b, 1, s, t]  ->  [b, 1, g * s, t]

Rows that see nothing: a mask of -inf would make them NaN in the operator, so it becomes the lowest number; where the
graph turned such rows into 0, a Where does that again (only rows of a causal mask can differ in what they see: in any
other mask, such a row means that the whole sample is padding).

Operator: onnxruntime ``docs/ContribOperators.md``, com.microsoft.MultiHeadAttention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.attention_pattern import Attention, find_attention
from optim_plugins.ort.dimensions import Size, Sizes, constant, permutation, producer, scalar

_LOWEST = np.float32(np.finfo(np.float32).min)
_SWAP = [0, 2, 1, 3]
"""Heads before the sequence, or behind it."""
_ORDERS = frozenset(("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Trilu"))


def fuse_attention(graph: ir.Model) -> tuple[int, list[str]]:
    """Fuse every attention block, in place.

    Returns:
        How many, and for each block that was found but not fused, why.
    """
    _split_key_transposes(graph)
    sizes = Sizes(graph)
    blocks, missed = find_attention(graph, sizes)
    writer = _Writer(graph, sizes)
    for block in blocks:
        reason = writer.rewrite(block)
        if reason is not None:
            missed.append(f"{block.softmax.name}: {reason}")
    if writer.fused:
        graph.graph.opset_imports.setdefault("com.microsoft", 1)
    return writer.fused, missed


def _split_key_transposes(graph: ir.Model) -> None:
    """``[b, t, h, d] -> [b, h, d, t]`` in two steps, the first of which makes keys: [b, h, t, d]."""
    for node in list(graph.graph):
        if permutation(node) != [0, 2, 3, 1]:
            continue
        if not any(use.node.op_type in ("MatMul", "Mul", "Div") for use in node.outputs[0].uses()):
            continue
        keys = ir.node("Transpose", [node.inputs[0]], {"perm": _SWAP}, name=f"{node.name}_keys")
        keys.outputs[0].type = node.outputs[0].type
        node.graph.insert_before(node, keys)  # type: ignore[union-attr]
        node.replace_input_with(0, keys.outputs[0])
        node.attributes["perm"] = ir.AttrInt64s("perm", [0, 1, 3, 2])


class _Writer:
    """Writes the operator in place of each block; remembers masks, which all layers share."""

    def __init__(self, graph: ir.Model, sizes: Sizes) -> None:
        self.fused = 0
        self._sizes = sizes
        self._graph = graph.graph
        self._opset = graph.graph.opset_imports.get("", 1)
        self._masks: dict[tuple[ir.Value, Size, int], ir.Value] = {}
        self._lowered: dict[tuple[ir.Value, bool | None], ir.Value] = {}
        self._seen: dict[ir.Value, ir.Value] = {}
        self._constants: dict[tuple[str, tuple[int, ...], tuple[Any, ...]], ir.Value] = {}

    def rewrite(self, block: Attention) -> str | None:
        """Replace one block; else the reason why not."""
        group = block.heads // block.key_heads
        if group > 1 and block.mask is not None and self._heads_of(block.mask) != 1:
            return "its mask differs between heads that share keys"
        self._before = block.output.producer()
        additive = self._additive(block) if block.mask is not None else None
        bias = self._shaped(block, additive, group) if additive is not None else None
        query = self._rows(block, group)
        flat = [self._flat(block.key), self._flat(block.value)] if group == 1 else [None]
        key, value = flat if all(flat) else (block.key, block.value)
        inputs = [query, key, value, None, None, bias] if bias is not None else [query, key, value]
        attention = self._add(
            "MultiHeadAttention", inputs, domain="com.microsoft", name=f"{block.softmax.name}_MultiHeadAttention",
            num_heads=block.key_heads, scale=float(block.scale),
        )  # fmt: skip
        attention.producer().metadata_props.update(block.softmax.metadata_props)  # type: ignore[union-attr]
        heads = self._split(attention, block, group)
        if additive is not None and block.zero_where_blind and _hides_completely(block.mask) and _has_order(block.mask):
            heads = self._blanked(heads, additive)
            attention = None
        self._hand_on(block, heads, attention if group == 1 else None)
        self.fused += 1
        return None

    def _rows(self, block: Attention, group: int) -> ir.Value:
        """The query as [batch, rows, key heads * head size]."""
        query = block.query
        if group == 1 and (flat := self._flat(query)) is not None:
            return flat
        if group > 1:
            query = self._reshape(query, [0, block.key_heads, -1, block.head_size])
        return self._reshape(self._transpose(query), [0, 0, block.key_heads * block.head_size])

    def _split(self, attention: ir.Value, block: Attention, group: int) -> ir.Value:
        """The result as [batch, sequence, heads, head size]."""
        split = self._reshape(attention, [0, 0, block.key_heads, block.head_size])
        if group == 1:
            return split
        by_key = self._transpose(split)
        return self._transpose(self._reshape(by_key, [0, block.heads, -1, block.head_size]))

    def _additive(self, block: Attention) -> ir.Value:
        """The mask as finite numbers to add to the scores."""
        mask = block.mask
        assert mask is not None
        key = (mask, block.hidden_where)
        if key not in self._lowered:
            self._lowered[key] = self._lower(mask, block)
        return self._lowered[key]

    def _lower(self, mask: ir.Value, block: Attention) -> ir.Value:
        zero, lowest = self._constant(np.float32(0)), self._constant(_LOWEST)
        if block.hidden_where is not None:
            return self._add("Where", [mask, lowest, zero] if block.hidden_where else [mask, zero, lowest])
        if not (block.zero_where_blind and _hides_completely(mask)):
            return mask
        node = mask.producer()
        if node is not None and node.op_type == "Where":
            sides = [lowest if scalar(side) == -np.inf else side for side in node.inputs[1:]]
            return self._add("Where", [node.inputs[0], *sides])
        return self._add("Max", [mask, lowest])

    def _shaped(self, block: Attention, mask: ir.Value, group: int) -> ir.Value:
        """The mask as the operator takes it: four axes, of which only the first two are broadcast."""
        rows = self._sizes.of(block.query, 2)
        key = (mask, rows, group)
        if key in self._masks:
            return self._masks[key]
        shaped = mask
        axes = self._sizes.rank(mask)
        total_known = axes is not None and self._sizes.of(mask, axes - 1) != 1
        if axes != 4 or rows is None or self._sizes.of(mask, 2) != rows or not total_known:
            one = self._constant(np.array([1], np.int64))
            total = one if total_known else self._size(block.key, 2)
            target = self._add("Concat", [one, one, self._size(block.query, 2), total], axis=0)
            shaped = self._add("Expand", [mask, target])
        if group > 1:
            shaped = self._add("Concat", [shaped] * group, axis=2)
        self._masks[key] = shaped
        return shaped

    def _blanked(self, heads: ir.Value, mask: ir.Value) -> ir.Value:
        """The result with 0 in rows that see nothing."""
        if mask not in self._seen:
            if self._opset >= 18:
                highest = self._add("ReduceMax", [mask, self._constant(np.array([-1], np.int64))], keepdims=1)
            else:
                highest = self._add("ReduceMax", [mask], axes=[-1], keepdims=1)
            seen = self._add("Greater", [highest, self._constant(_LOWEST)])
            self._seen[mask] = self._transpose(seen)
        return self._add("Where", [self._seen[mask], heads, self._constant(np.float32(0))])

    def _hand_on(self, block: Attention, heads: ir.Value, flat: ir.Value | None) -> None:
        """Let whoever read the block read its replacement, without the Transpose and Reshape that are undone at once."""
        query = block.query
        whole = [self._sizes.of(query, 0), block.heads, self._sizes.of(query, 2), block.head_size]
        self._sizes.declare(block.output, whole)
        for reader in self._readers(block.output):
            if permutation(reader) == _SWAP:
                self._hand_on_rows(reader, block, heads, flat)
        ir.convenience.replace_all_uses_with(block.output, self._transpose(heads))

    def _hand_on_rows(self, transpose: ir.Node, block: Attention, heads: ir.Value, flat: ir.Value | None) -> None:
        rows = transpose.outputs[0]
        whole = [self._sizes.of(block.query, 0), self._sizes.of(block.query, 2), block.heads * block.head_size]
        for use in list(rows.uses()):
            node = use.node
            target = self._sizes.target(node) if node.op_type == "Reshape" else None
            if flat is not None and target is not None and len(target) == 3 and self._sizes.differing(target, whole) <= 1:
                _take_over(node.outputs[0], flat)
        _take_over(rows, heads)

    def _heads_of(self, mask: ir.Value) -> Size:
        """The size of a mask at the axis of heads; 1 where it has no such axis."""
        axes = self._sizes.rank(mask)
        return None if axes is None else self._sizes.of(mask, axes - 3) if axes >= 3 else 1

    def _flat(self, value: ir.Value) -> ir.Value | None:
        """[batch, sequence, hidden] of heads split off it: Transpose(Reshape(flat, [b, s, h, d]), [0, 2, 1, 3])."""
        transpose = producer(value, "Transpose")
        split = producer(transpose.inputs[0], "Reshape") if transpose is not None and permutation(transpose) == _SWAP else None
        flat = split.inputs[0] if split is not None else None
        if split is None or flat is None or self._sizes.rank(flat) != 3:
            return None
        kept = all(self._sizes.of(split.outputs[0], axis) == self._sizes.of(flat, axis) for axis in (0, 1))
        return flat if kept else None

    def _readers(self, value: ir.Value) -> list[ir.Node]:
        """Readers of a value, also behind a Reshape that changes nothing."""
        found: list[ir.Node] = []
        for use in value.uses():
            same = use.node.op_type == "Reshape" and self._sizes.keeps_shape(use.node)
            found += self._readers(use.node.outputs[0]) if same else [use.node]
        return found

    def _size(self, value: ir.Value, axis: int) -> ir.Value:
        shape = self._add("Shape", [value])
        return self._add("Gather", [shape, self._constant(np.array([axis], np.int64))], axis=0)

    def _reshape(self, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
        return self._add("Reshape", [value, self._constant(np.array(sizes, np.int64))])

    def _transpose(self, value: ir.Value) -> ir.Value:
        return self._add("Transpose", [value], perm=_SWAP)

    def _constant(self, array: np.ndarray[Any, Any] | np.generic) -> ir.Value:
        content = np.asarray(array)
        key = (content.dtype.name, content.shape, tuple(content.reshape(-1).tolist()))
        if key not in self._constants:
            name = f"attention_constant_{len(self._constants)}"
            while name in self._graph.initializers:
                name += "_"
            tensor = ir.tensor(content, name=name)
            value = ir.Value(name=name, shape=ir.Shape(content.shape), type=ir.TensorType(tensor.dtype), const_value=tensor)
            self._graph.register_initializer(value)
            self._constants[key] = value
        return self._constants[key]

    def _add(
        self, operator: str, inputs: Sequence[ir.Value | None], *, domain: str = "", name: str | None = None, **attributes: Any
    ) -> ir.Value:
        node = ir.node(operator, inputs, attributes, domain=domain, name=name)
        assert self._before is not None
        self._graph.insert_before(self._before, node)
        return node.outputs[0]


def _hides_completely(mask: ir.Value | None) -> bool:
    """Whether a mask may hold -inf: all but a choice between finite constants."""
    node = mask.producer() if mask is not None else None
    if node is None or node.op_type != "Where":
        return True
    return any((array := constant(side)) is None or not np.isfinite(array).all() for side in node.inputs[1:])


def _has_order(mask: ir.Value | None) -> bool:
    """Whether positions are compared with one another somewhere above a mask, as in a causal one."""
    todo, known = [mask], set()
    while todo:
        value = todo.pop()
        node = value.producer() if value is not None else None
        if node is None or node in known:
            continue
        known.add(node)
        if node.op_type in _ORDERS and not any(constant(side) is not None for side in node.inputs[:2] if node.op_type != "Trilu"):
            return True
        todo += node.inputs
    return False


def _take_over(old: ir.Value, new: ir.Value) -> None:
    """Let every reader of ``old`` read ``new``; a graph output keeps its name."""
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=old.is_graph_output())
