"""Weights of products in integers of 4 bits, as TensorRT reads them.

Before::

    y = MatMul(a, W)                            W float32 [K, N]

After, with a scale for each block of 128 (or 64) rows of a column::

    y = MatMul(a, DequantizeLinear(W_q, scale, axis=0, block_size=128))        W_q int4 [K, N], scale [K / 128, N]

Integers lie from -7 to 7 about 0: TensorRT knows no zero points of weights. Of some scales for each block, the one with
the least squared error is taken. Format: https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html, opset 21.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.onnx import UniqueNames, make_constant
from optim_plugins.ort.graph.fixed_weights import drop_unread_weights
from optim_plugins.ort.graph.products import Product, find_products

LEAST_OPSET = 21
"""In which blocks came to DequantizeLinear."""

LEAST_ELEMENTS = 4096
"""Smaller weights gain nothing."""

_BLOCKS = (128, 64)
_MOST = 7
_TRIED = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)
"""Shares of the largest weight that the largest integer may stand for: below 0.7 what is cut off costs more."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the products: how many, and names of those whose rows are no multiple of a block."""

    count: int
    uneven: tuple[str, ...]


def choices(graph: ir.Model) -> list[str]:
    """Names of the products whose weights can be written so."""
    return [one.name for one in find_products(graph, LEAST_ELEMENTS) if _block(one.rows)]


def write_four_bits(graph: ir.Model, keep: Collection[str]) -> Written:
    """Put DequantizeLinear between weights and products, in place; weights that are not finite stay as they are.

    Args:
        graph: of opset 21 or later.
        keep: names of products that are left in float.
    """
    names = UniqueNames(graph)
    made: dict[tuple[ir.Value, int], ir.Value] = {}
    found = [one for one in find_products(graph, LEAST_ELEMENTS) if one.name not in keep]
    count = 0
    for product in found:
        floats = _floats(graph, product, made, names) if _block(product.rows) else None
        if floats is not None:
            product.node.replace_input_with(1, floats)
            count += 1
    RemoveUnusedNodesPass()(graph)
    drop_unread_weights(graph)
    return Written(count, tuple(one.name for one in found if not _block(one.rows)))


def in_blocks(columns: Floats, block: int) -> tuple[NDArray[np.int8], Floats]:
    """Integers [N, K] and scales [N, K / block] of a weight [N, K]."""
    blocks = columns.reshape(len(columns), -1, block)
    largest = np.maximum(np.abs(blocks).max(axis=2, keepdims=True), np.float32(1e-12))
    best = np.zeros(blocks.shape, np.int8)
    scale, least = largest / _MOST, np.full(largest.shape, np.inf, np.float32)
    for share in _TRIED:
        tried = largest * np.float32(share) / _MOST
        integers = np.clip(np.rint(blocks / tried), -_MOST, _MOST)
        error = np.square(integers * tried - blocks).sum(axis=2, keepdims=True)
        better = error < least
        best, scale = np.where(better, integers, best).astype(np.int8), np.where(better, tried, scale)
        least = np.minimum(error, least)
    return best.reshape(columns.shape), scale[..., 0].astype(np.float32)


def _floats(
    graph: ir.Model, product: Product, made: dict[tuple[ir.Value, int], ir.Value], names: UniqueNames
) -> ir.Value | None:
    """What the integers of a weight stand for; None where the weight is not finite."""
    read_transposed = product.transposed and product.node.inputs[1] is product.weight  # else a Transpose is between
    key = product.weight, 1 if read_transposed else 0
    if key not in made:
        tensor = product.weight.const_value
        assert tensor is not None
        weight = tensor.numpy()
        if not np.isfinite(weight).all():
            return None
        block = _block(product.rows)
        integers, scale = in_blocks(weight if product.transposed else weight.T, block)
        if not read_transposed:
            integers, scale = np.ascontiguousarray(integers.T), np.ascontiguousarray(scale.T)
        name = product.weight.name or product.name
        operands = [
            make_constant(names.take(f"{name}_int4"), ir.tensor(integers.astype(ml_dtypes.int4))),
            make_constant(names.take(f"{name}_int4_scale"), scale),
        ]
        for operand in operands:
            graph.graph.register_initializer(operand)
        named = names.take(f"{name}_dequantize")
        node = ir.node("DequantizeLinear", operands, {"axis": key[1], "block_size": block}, name=named)
        node.outputs[0].name = names.take(f"{name}_floats")
        node.outputs[0].type, node.outputs[0].shape = product.weight.type, ir.Shape(integers.shape)
        graph.graph.insert_before(graph.graph[0], node)
        made[key] = node.outputs[0]
    return made[key]


def _block(rows: int) -> int:
    """Rows of a block; 0 where none divides them."""
    return next((block for block in _BLOCKS if rows % block == 0), 0)
