"""Whether a tool changed a model at all: names, order and shapes it inferred count for nothing."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any


def changed_nothing(original: Path, made: Path) -> bool:
    """Whether both have the same nodes and the same constants."""
    return content(original) == content(made)


def computes_in_floats(made: Path) -> bool:
    """Whether nothing in a model is in integers: a quantizer that only prepared it changed nothing of its own."""
    import onnx

    nodes = onnx.load(made, load_external_data=False).graph.node
    return not any(word in node.op_type for node in nodes for word in _INTEGERS)


_INTEGERS = ("QuantizeLinear", "DequantizeLinear", "Integer", "QLinear", "QAttention", "MatMulNBits", "QGemm")


def content(path: Path) -> Counter[str]:
    """Each node by its operator, numbers and texts of its attributes, and each constant by its bytes."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(path)
    found: Counter[str] = Counter()

    def constant(tensor: Any) -> None:
        array = numpy_helper.to_array(tensor)
        found[hashlib.sha256(f"{array.dtype}{array.shape}".encode() + array.tobytes()).hexdigest()] += 1

    for tensor in model.graph.initializer:
        constant(tensor)
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            constant(node.attribute[0].t)
            continue
        attributes = sorted(one.SerializeToString(deterministic=True) for one in node.attribute)
        found[f"{node.domain}.{node.op_type}|{b'|'.join(attributes)!r}"] += 1
    return found
