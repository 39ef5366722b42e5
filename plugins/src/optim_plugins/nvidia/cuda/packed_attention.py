"""Attention whose queries, keys and values come from one product, as CUDA's fused kernels read them.

Before::

    y = com.microsoft.MultiHeadAttention(x Wq + bq, x Wk + bk, x Wv + bv, ..., mask)

After, N heads of H numbers each::

    q = Reshape(x W + b, [0, 0, N, 3, H])         W [K, N * 3 * H]: for each head its columns of Wq, of Wk and of Wv
    y = com.microsoft.MultiHeadAttention(q, ..., mask)

One product of three times the width instead of three, and no copies before the kernel. ONNX Runtime has this form for
CUDA alone. Operator: onnxruntime ``docs/ContribOperators.md``, com.microsoft.MultiHeadAttention.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.onnx import UniqueNames, add_constant, read_constant
from optim_plugins.ort.fuse.pack_attention import Projection, find_projected
from optim_plugins.ort.graph.node_writer import NodeWriter


def pack_attention(graph: ir.Model) -> int:
    """Pack every attention whose three projections have one width, in place; how many."""
    writer = NodeWriter(graph, "packed")
    names = UniqueNames(graph)
    count = 0
    for node, projections in list(find_projected(graph)):
        weights = [read_constant(one.weight) for one in projections]
        heads = node.attributes.get_int("num_heads", 1)
        if any(weight is None or weight.shape != weights[0].shape for weight in weights):
            continue
        size = weights[0].shape[1] // heads
        writer.before = node
        name = node.name or f"attention_{count}"
        weight = add_constant(graph.graph, names.take(f"{name}_packed_weight"), _by_head(weights, heads))
        product = writer.add("MatMul", [projections[0].source, weight], name=names.take(f"{name}_packed"))
        if any(one.bias is not None for one in projections):
            bias = add_constant(graph.graph, names.take(f"{name}_packed_bias"), _by_head(_biases(projections), heads))
            product = writer.add("Add", [product, bias])
        packed = writer.reshape(product, [0, 0, heads, 3, size])
        node.replace_input_with(0, packed)
        node.replace_input_with(1, None)
        node.replace_input_with(2, None)
        count += 1
    return count


def _by_head(arrays: list[np.ndarray], heads: int) -> np.ndarray:
    """[..., heads * size] of queries, keys and values as [..., heads * 3 * size]."""
    split = [array.reshape(*array.shape[:-1], heads, -1) for array in arrays]
    stacked = np.stack(split, axis=-2)
    return np.ascontiguousarray(stacked.reshape(*arrays[0].shape[:-1], -1))


def _biases(projections: list[Projection]) -> list[np.ndarray]:
    found = []
    for one in projections:
        weight = read_constant(one.weight)
        bias = read_constant(one.bias) if one.bias is not None else np.zeros((), weight.dtype)
        found.append(np.broadcast_to(bias, weight.shape[1:]))
    return found


__all__ = ["pack_attention"]
