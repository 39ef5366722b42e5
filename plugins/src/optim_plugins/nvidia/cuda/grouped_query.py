"""Attention over a past in one buffer without its mask, as CUDA's flash attention takes none.

Before, as ``ort.share-past`` and a conversion to float16 leave it::

    y, present_k, present_v = com.microsoft.GroupQueryAttention(
        q, k, v, past_k, past_v, seqlens_k, total_sequence_length, attention_bias=mask)

After, where the mask hides what comes later and nothing else::

    y, present_k, present_v = com.microsoft.GroupQueryAttention(
        q, k, v, past_k, past_v, seqlens_k, total_sequence_length)

The operator hides later tokens by itself. What the mask hides is found by computing it for some sizes with an
``attention_mask`` of ones: a window or a bias by distance shows there. Padding is no longer seen. CUDA has kernels in
float16 and bfloat16; the one that takes ``attention_bias`` writes out all products of queries and keys (onnxruntime
1.31, ``contrib_ops/cuda/bert/group_query_attention.cc``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

if TYPE_CHECKING:
    from optim.arrays import Array

_BIAS = 10
"""Place of ``attention_bias`` among the inputs."""

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)

_HIDDEN = -1e4
"""What is added to hide a token, at most: exporters take -65504 and less."""

_SIZES = ((3, 5), (1, 40_000))
"""New tokens and those of a past; the second shows windows, which models have of 512 to 32768 tokens."""


def drop_causal_masks(graph: ir.Model) -> int:
    """Let every such attention do without its mask, in place; how many were changed."""
    nodes = [node for node in graph.graph if _has_mask(node)]
    masks = dict.fromkeys(node.inputs[_BIAS] for node in nodes)
    causal = {mask for mask in masks if mask is not None and mask.name and is_causal(graph, mask.name)}
    changed = [node for node in nodes if node.inputs[_BIAS] in causal]
    for node in changed:
        node.replace_input_with(_BIAS, None)
    return len(changed)


def is_causal(graph: ir.Model, mask: str) -> bool:
    """Whether a value is 0 for each token and those before it and hides all others, where nothing is padding.

    Args:
        graph: with the inputs that decoders have: ``attention_mask``, ``input_ids``, ``position_ids``.
        mask: name of a value of it that reads no other inputs, [..., new tokens, all tokens].
    """
    import onnxruntime as ort

    part = graph.clone()
    value = next(value for node in part.graph for value in node.outputs if value.name == mask)
    part.graph.outputs.clear()
    part.graph.outputs.append(value)
    RemoveUnusedNodesPass()(part)
    for unused in [one for one in part.graph.inputs if not one.uses() and not one.is_initializer()]:
        part.graph.inputs.remove(unused)
    inputs = {one.name or "": one.dtype for one in part.graph.inputs if one.uses()}
    if any(name not in _feeds(1, 1) for name in inputs):
        return False
    ir.external_data.load_to_model(part)
    written = ir.serde.serialize_model(part).SerializeToString()
    session = ort.InferenceSession(written, providers=["CPUExecutionProvider"])
    for new, past in _SIZES:
        feeds = {name: array for name, array in _feeds(new, past).items() if name in inputs}
        (found,) = session.run([mask], feeds)
        if not _hides_only_later(np.asarray(found, np.float32), past):
            return False
    return True


def _has_mask(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != ("com.microsoft", "GroupQueryAttention") or len(node.inputs) <= _BIAS:
        return False
    query, mask = node.inputs[0], node.inputs[_BIAS]
    return mask is not None and query is not None and query.dtype in _HALF


def _feeds(new: int, past: int) -> dict[str, Array]:
    return {
        "attention_mask": np.ones((1, past + new), np.int64),
        "input_ids": np.zeros((1, new), np.int64),
        "position_ids": np.arange(past, past + new, dtype=np.int64)[None],
    }


def _hides_only_later(mask: NDArray[np.float32], past: int) -> bool:
    new, total = mask.shape[-2:]
    later = np.arange(total)[None, :] > past + np.arange(new)[:, None]
    return bool((mask[..., ~later] == 0).all() and (mask[..., later] <= _HIDDEN).all())
