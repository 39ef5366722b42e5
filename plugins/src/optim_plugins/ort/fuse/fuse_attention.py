"""Attention as one operator, with its projections left as matrix products that quantization can reach.

Before (:mod:`optim_plugins.ort.fuse.attention_pattern` has every variant)::

    y = Reshape(Transpose(MatMul(Softmax(MatMul(q, k^T) * scale + mask), v), [0, 2, 1, 3]), [b, s, -1])

After::

    y = com.microsoft.MultiHeadAttention(q, k, v, attention_bias=mask, scale=scale)

``q`` is [batch, sequence, hidden]. ``k`` and ``v`` are too where they are heads split off a projection; where a past
was joined to them they stay [batch, heads, total, head size], which the operator takes as it is.

Grouped queries: where a key head serves ``g`` query heads, the exporter repeats keys and values ``g`` times. Here the
``g`` query heads become ``g`` times as many rows of one head instead, so that nothing is repeated::

    q [b, g * n, s, d]  ->  [b, n, g * s, d]          mask [b, 1, s, t]  ->  [b, 1, g * s, t]

Masks: :mod:`optim_plugins.ort.fuse.attention_masks`. Operator: com.microsoft.MultiHeadAttention, onnxruntime
``docs/ContribOperators.md``.
"""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.fuse.attention_pattern import Attention, find_attention
from optim_plugins.ort.fuse.block_writer import SWAP, BlockWriter
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_values import permutation


def fuse_attention(graph: ir.Model) -> tuple[int, list[str]]:
    """Fuse every attention block, in place.

    Returns:
        How many, and for each block that was found but not fused, why.
    """
    split_key_transposes(graph)
    blocks, missed = find_attention(graph, Sizes(graph))
    fuser = _Fuser(graph, Sizes(graph, {block.output: block.query for block in blocks}))
    for block in blocks:
        reason = fuser.fuse(block)
        if reason is not None:
            missed.append(f"{block.softmax.name}: {reason}")
    if fuser.count:
        graph.graph.opset_imports.setdefault("com.microsoft", 1)
    return fuser.count, missed


def split_key_transposes(graph: ir.Model) -> None:
    """Write ``[b, t, h, d] -> [b, h, d, t]`` in two steps, the first of which makes keys: [b, h, t, d]."""
    for node in list(graph.graph):
        if permutation(node) != [0, 2, 3, 1]:
            continue
        if not any(use.node.op_type in ("MatMul", "Mul", "Div") for use in node.outputs[0].uses()):
            continue
        keys = ir.node("Transpose", [node.inputs[0]], {"perm": SWAP}, name=f"{node.name}_keys")
        keys.outputs[0].type = node.outputs[0].type
        graph.graph.insert_before(node, keys)
        node.replace_input_with(0, keys.outputs[0])
        node.attributes["perm"] = ir.AttrInt64s("perm", [0, 1, 3, 2])


class _Fuser:
    """Writes the operator in place of each block."""

    def __init__(self, graph: ir.Model, sizes: Sizes) -> None:
        self.count = 0
        self._around = BlockWriter(graph, sizes)
        self._writer = self._around.nodes

    def fuse(self, block: Attention) -> str | None:
        """Replace one block; else the reason why not."""
        group, masks = block.heads // block.key_heads, self._around.masks
        if group > 1 and block.mask is not None and masks.heads(block.mask) != 1:
            return "its mask differs between heads that share keys"
        self._writer.before = block.output.producer()
        bias = masks.bias(block)
        flat = [self._around.flat(block.key), self._around.flat(block.value)] if group == 1 else [None]
        key, value = flat if all(flat) else (block.key, block.value)
        inputs = [self._rows(block, group), key, value, *([None, None, bias] if bias is not None else [])]
        attention = self._writer.add(
            "MultiHeadAttention",
            inputs,
            domain="com.microsoft",
            name=f"{block.softmax.name}_MultiHeadAttention",
            num_heads=block.key_heads,
            scale=float(block.scale),
        )
        attention.producer().metadata_props.update(block.softmax.metadata_props)  # type: ignore[union-attr]
        heads = self._split(attention, block, group)
        blanked = masks.blank(block, heads)
        if blanked is not None:
            self._around.hand_on(block, blanked, None)
        else:
            self._around.hand_on(block, heads, attention if group == 1 else None)
        self.count += 1
        return None

    def _rows(self, block: Attention, group: int) -> ir.Value:
        """The query as [batch, rows, key heads * head size]."""
        if group == 1:
            return self._around.rows(block.query, block.key_heads * block.head_size)
        query = self._writer.reshape(block.query, [0, block.key_heads, -1, block.head_size])
        return self._writer.reshape(self._writer.transpose(query, SWAP), [0, 0, block.key_heads * block.head_size])

    def _split(self, attention: ir.Value, block: Attention, group: int) -> ir.Value:
        """The result as [batch, sequence, heads, head size]."""
        split = self._writer.reshape(attention, [0, 0, block.key_heads, block.head_size])
        if group == 1:
            return split
        by_key = self._writer.transpose(split, SWAP)
        return self._writer.transpose(self._writer.reshape(by_key, [0, block.heads, -1, block.head_size]), SWAP)
