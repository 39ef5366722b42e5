"""Why a quantization finds nothing to do, where somebody has quantized the model before."""

from __future__ import annotations

from optim import Applicable, Model

_MARKS = (
    "QuantizeLinear",
    "DequantizeLinear",
    "DynamicQuantize",
    "QLinear",
    "MatMulInteger",
    "ConvInteger",
    "MatMulNBits",
)


def nothing_to_quantize(model: Model, reason: str) -> Applicable:
    """No, with the reason, and what explains it."""
    kinds = sorted({node.op_type for node in model.ir_to_read().graph.all_nodes() if node.op_type.startswith(_MARKS)})
    return Applicable.no(f"{reason}; the model is quantized already ({', '.join(kinds)})" if kinds else reason)
