"""A scale for each row of what a product is given, where DynamicQuantizeLinear has one for all of them.

Before::

    y = DynamicQuantizeMatMul(a, W_q, W_scale, W_zero, bias)

After, which is exact but for rounding::

    s = Max(ReduceMax(Abs(a), axis -1), 1e-9)                   [..., 1]
    y = DynamicQuantizeMatMul(a / s, W_q, W_scale, W_zero) * s + bias

A few tokens of a transformer can have activations a hundred times those of the others (Sun et al., "Massive Activations
in Large Language Models", 2024), and one scale for all then leaves the others little. Smoothing cannot help there: it
scales channels.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.quantize.product_rewriter import ProductRewriter

_LEAST = 1e-9
"""A row of zeros stays one."""

_AXES_ARE_INPUT = 18
"""Of ReduceMax, from this opset on."""


def scale_rows(rewriter: ProductRewriter, product: Product) -> tuple[ir.Value, ir.Value]:
    """Put what scales the rows in front of a product.

    Returns:
        The largest magnitude of each row, [..., 1], and the rows divided by it.
    """
    graph, a = product.node.graph, product.a
    assert graph is not None
    floats = ir.TensorType(ir.DataType.FLOAT)
    axes = [rewriter.initializer("row_axes", np.array([-1], np.int64))]
    known: dict[str, int | list[int]] = {"keepdims": 1}
    if rewriter.opset < _AXES_ARE_INPUT:
        axes, known = [], {"keepdims": 1, "axes": [-1]}
    nodes = [ir.node("Abs", [a])]
    nodes.append(ir.node("ReduceMax", [nodes[-1].outputs[0], *axes], known))
    least = rewriter.initializer("least_row", np.array(_LEAST, np.float32))
    nodes.append(ir.node("Max", [nodes[-1].outputs[0], least]))
    nodes.append(ir.node("Div", [a, nodes[-1].outputs[0]]))
    for node, part in zip(nodes, ("magnitudes", "largest", "scale", "scaled"), strict=True):
        node.name = f"{product.name}_rows_{part}"
        node.outputs[0].name, node.outputs[0].type = rewriter.names.take(f"{node.name}_output"), floats
    nodes[-1].outputs[0].shape = a.shape
    graph.insert_before(product.node, nodes)
    return nodes[2].outputs[0], nodes[3].outputs[0]
