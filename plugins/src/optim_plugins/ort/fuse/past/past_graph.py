"""Writes GroupQueryAttention in the place of every attention over a past.

Before (:mod:`optim_plugins.ort.fuse.past.past_pattern`)::

    present_k, present_v = Concat(past_k, k, axis=2), Concat(past_v, v, axis=2)
    y = Softmax(q present_k^T * scale + mask) present_v

After, with q, k and v as rows, [batch, sequence, heads * head size]::

    y, present_k, present_v = com.microsoft.GroupQueryAttention(
        q, k, v, past_k, past_v, seqlens_k, total_sequence_length, attention_bias=mask, scale=scale)

Where present is bound to the memory of past, which then has room for all tokens, the operator writes new keys and
values behind those that are there, and copies nothing; where it is not, it returns a present of past and new tokens, as
Concat does. The mask stays what the graph makes of ``attention_mask``, and says all of what is seen: padding on either
side, windows and biases by distance. The kernel hides later tokens too, as a causal mask does anyway; a row of padding
that sees nothing weighs the tokens up to itself alike, and not all.

Operator: onnxruntime ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from dataclasses import replace

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.decoders import name_shared_past
from optim_plugins.ort.fuse.attention_pattern import Attention
from optim_plugins.ort.fuse.block_writer import BlockWriter
from optim_plugins.ort.fuse.fuse_attention import split_key_transposes
from optim_plugins.ort.fuse.fuse_rotary import fuse_rotary
from optim_plugins.ort.fuse.past.past_lengths import PastLengths
from optim_plugins.ort.fuse.past.past_pattern import Joined, PastBlock, find_past
from optim_plugins.ort.fuse.simplify_rms import simplify_rms
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_attributes import are_known, unknown_to_onnx
from optim_plugins.ort.graph.node_writer import take_over
from optim_plugins.ort.prepare.clean_graph import clean

_KNOWN = {"RotaryEmbedding": ("interleaved",)}


def share_past(graph: ir.Model) -> int | str:
    """Let the past of a graph and its present lie in one buffer, in place.

    Returns:
        How many attentions have such a past; or why the past of this graph cannot, and then it is used up.
    """
    if strange := unknown_to_onnx(graph):
        return strange
    clean(graph)
    split_key_transposes(graph)
    fuse_rotary(graph)
    simplify_rms(graph)
    sizes = Sizes(graph)
    found = find_past(graph, sizes)
    if isinstance(found, str):
        return found
    around = BlockWriter(graph, Sizes(graph, {one.attention.output: one.attention.query for one in found.blocks}))
    lengths = PastLengths(graph, found, around.nodes)
    presents: dict[Joined, ir.Value] = {}
    for block in found.blocks:
        presents |= _write(block, around, lengths)
    RemoveUnusedNodesPass()(graph)
    reason = lengths.replace(presents)
    if reason:
        return reason
    lengths.rename()
    graph.graph.opset_imports.setdefault("com.microsoft", 1)
    clean(graph)
    name_shared_past(graph)
    return len(found.blocks)


def _write(block: PastBlock, around: BlockWriter, lengths: PastLengths) -> dict[Joined, ir.Value]:
    """Replace one attention; what the operator returns for its keys and its values."""
    attention, nodes = block.attention, around.nodes
    end = attention.output.producer()
    assert end is not None
    nodes.before = end
    rows = [
        _rows(around, heads, attention, count)
        for heads, count in (
            (attention.query, attention.heads),
            (block.key.new, attention.key_heads),
            (block.value.new, attention.key_heads),
        )
    ]
    inputs: list[ir.Value | None] = [*rows, block.key.past, block.value.past, lengths.last, lengths.total]
    bias = around.masks.bias(replace(attention, key_heads=attention.heads))
    if bias is not None:
        inputs += [None, None, None, bias]
    attributes = {"num_heads": attention.heads, "kv_num_heads": attention.key_heads, "scale": float(attention.scale)}
    name = f"{attention.softmax.name}_GroupQueryAttention"
    node = ir.node("GroupQueryAttention", inputs, attributes, domain="com.microsoft", name=name, num_outputs=3)
    node.metadata_props.update(attention.softmax.metadata_props)
    assert end.graph is not None
    end.graph.insert_before(end, node)
    merged, key, value = node.outputs
    merged.type = rows[0].type
    take_over(block.key.present, key)
    take_over(block.value.present, value)
    _hand_on(block, around, merged)
    return {block.key: key, block.value: value}


def _hand_on(block: PastBlock, around: BlockWriter, merged: ir.Value) -> None:
    attention = block.attention
    heads = around.nodes.reshape(merged, [0, 0, attention.heads, attention.head_size])
    blanked = around.masks.blank(attention, heads)
    if blanked is None:
        around.hand_on(attention, heads, merged)
    else:
        around.hand_on(attention, blanked, None)


def _rows(around: BlockWriter, heads: ir.Value, attention: Attention, count: int) -> ir.Value:
    """Heads as rows; a rotation of heads that were split off rows rotates the rows themselves."""
    rotary = heads.producer()
    is_rotary = rotary is not None and rotary.op_type == "RotaryEmbedding" and rotary.domain == "com.microsoft"
    if rotary is None or not is_rotary or not are_known([rotary], _KNOWN):
        return around.rows(heads, count * attention.head_size)
    source = rotary.inputs[0]
    flat = around.flat(source) if source is not None else None
    if flat is None:
        return around.rows(heads, count * attention.head_size)
    interleaved = rotary.attributes.get_int("interleaved", 0)
    operands = [flat, *rotary.inputs[1:]]
    return around.nodes.add(
        "RotaryEmbedding", operands, domain="com.microsoft", interleaved=interleaved, num_heads=count
    )
