"""Denormal weights become zeros, because processors compute with denormal numbers many times slower.

Training with weight decay drives the weights of unused channels towards zero, far below 1e-38, the smallest normal
number of float32. A product with such a weight takes a processor over a hundred cycles, and is too small to change a
sum of numbers of ordinary size. The detector of PP-OCRv6 has 255,958 denormal weights: without them onnxruntime runs
it in a third of the time on an Intel processor.

A denormal number can still matter: ``x / (y + 1e-39)`` is 0 if ``x`` and ``y`` are 0, and NaN without the summand.
Samples may not show that. So only weights and biases of products become zeros.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.onnx import denormal_weights, is_denormal

_PRODUCTS = {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN"}


def zero_denormal_weights(graph: ir.Model) -> int:
    """Replace denormal numbers in float32 weights by zeros.

    Only a weight of more than one element is changed, and only if all its readers use it in a product.

    Returns:
        How many numbers became zeros.
    """
    total = 0
    for value, count in list(denormal_weights(graph)):
        weight = value.const_value
        assert weight is not None
        if weight.size < 2 or value.is_graph_input() or value.is_graph_output():
            continue
        if all(_is_of_a_product(use.node) for use in value.uses()):
            array = weight.numpy()
            value.const_value = ir.Tensor(np.where(is_denormal(array), np.float32(0), array), name=value.name)
            total += count
    return total


def _is_of_a_product(node: ir.Node) -> bool:
    """Whether a reader of a weight is a product, adds the weight to the result of one, or turns the weight for one."""
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "Transpose":
        readers = [use.node for use in node.outputs[0].uses()]
        return not node.outputs[0].is_graph_output() and all(_is_of_a_product(reader) for reader in readers)
    makers = [value.producer() for value in node.inputs if value is not None]
    is_bias = node.op_type == "Add" and any(maker is not None and maker.op_type in _PRODUCTS for maker in makers)
    return is_bias or node.op_type in _PRODUCTS
