"""Models that somebody has quantized before: whether one is, and why a quantization finds nothing to do there."""

from __future__ import annotations

from optim import Applicable, Model
from optim.onnx import operator_counts

_OPERATORS = ("DynamicQuantize", "QLinear", "QGemm", "QAttention", "MatMulInteger", "ConvInteger")
"""They multiply 8-bit integers themselves."""

_DEQUANTIZED = "DequantizeLinear"
_MARKS = (*_OPERATORS, _DEQUANTIZED, "QuantizeLinear", "MatMulNBits")


def multiplies_integers(model: Model) -> bool:
    """Whether a model may multiply 8-bit integers: in its operators, or in those that onnxruntime makes of Q/DQ."""
    return any(name.startswith((*_OPERATORS, _DEQUANTIZED)) for name in _types(model))


def multiplies_only_dequantized(model: Model) -> bool:
    """Whether its products are those of Q/DQ alone, which onnxruntime can also compute in float."""
    return not any(name.startswith(_OPERATORS) for name in _types(model))


def _types(model: Model) -> set[str]:
    return {name.rpartition(":")[2] for name in operator_counts(model.path)}


def nothing_to_quantize(model: Model, reason: str) -> Applicable:
    """No, with the reason, and what explains it."""
    kinds = sorted({node.op_type for node in model.ir_to_read().graph.all_nodes() if node.op_type.startswith(_MARKS)})
    return Applicable.no(f"{reason}; the model is quantized already ({', '.join(kinds)})" if kinds else reason)
