"""Denormal weights become zeros, because processors compute with denormal numbers many times slower.

Training with weight decay drives the weights of unused channels towards zero, far below 1e-38, the smallest normal
number of float32. A product with such a weight takes a processor over a hundred cycles. The product itself is too
small to change a sum of normal numbers. The detector of PP-OCRv6 has 255,958 denormal weights: without them
onnxruntime runs it in a third of the time on an Intel processor.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.onnx import denormal_weights, is_denormal

_LINEAR = {"Conv", "ConvTranspose", "MatMul", "Gemm", "Add", "Mul", "LSTM", "GRU", "RNN", "Transpose"}
"""Operators that multiply a weight, add it, or turn it for one that does. A division by a denormal number is not a
division by zero."""


def zero_denormal_weights(graph: ir.Model) -> int:
    """Replace denormal numbers in float32 weights by zeros.

    Only a weight of more than one element is changed, and only if all its readers multiply it or add it.

    Returns:
        How many numbers became zeros.
    """
    total = 0
    for value, count in list(denormal_weights(graph)):
        weight = value.const_value
        assert weight is not None
        if weight.size < 2 or value.is_graph_input() or value.is_graph_output():
            continue
        if all(_is_linear(use.node) for use in value.uses()):
            array = weight.numpy()
            value.const_value = ir.Tensor(np.where(is_denormal(array), np.float32(0), array), name=value.name)
            total += count
    return total


def _is_linear(node: ir.Node) -> bool:
    return node.domain in ("", "ai.onnx") and node.op_type in _LINEAR
