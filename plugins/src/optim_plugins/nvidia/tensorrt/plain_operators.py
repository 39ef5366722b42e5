"""Operators of ONNX Runtime's own, written in standard ones that TensorRT reads.

Before::

    y = com.microsoft.BiasGelu(x, b)
    y, _, _, s = com.microsoft.SkipLayerNormalization(x, skip, gamma, beta, bias)
    y = com.microsoft.FusedMatMul(a, b, transB=1, alpha=0.5)

After::

    v = Add(x, b);  y = Mul(Mul(v, Add(Erf(Div(v, sqrt 2)), 1)), 0.5)
    s = Add(Add(x, skip), bias);  y = LayerNormalization(s, gamma, beta)
    y = Mul(MatMul(a, Transpose(b)), 0.5)

Formulas: onnxruntime ``docs/ContribOperators.md``. What is in no rule stays as it is, and runs on CUDA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

MICROSOFT = "com.microsoft"
_HAS_LAYER_NORMALIZATION = 17
_Rule = Callable[[ir.Node, NodeWriter], "dict[int, ir.Value] | None"]


def write_plainly(graph: ir.Model) -> tuple[dict[str, int], list[str]]:
    """Rewrite in place.

    Returns:
        How many nodes of each operator were rewritten, and which operators of ONNX Runtime's own are left.
    """
    writer = NodeWriter(graph, "plain")
    counts: Counter[str] = Counter()
    left: set[str] = set()
    for node in list(graph.graph):
        if not _is_own(node):
            continue
        rule = _RULES.get(node.op_type)
        writer.before = node
        results = rule(node, writer) if rule is not None and _is_float(node) else None
        if results is None or not _covers(node, results):
            left.add(node.op_type)
            continue
        for index, old in enumerate(node.outputs):
            if index in results:
                take_over(old, results[index])
        graph.graph.remove(node, safe=True)
        counts[node.op_type] += 1
    return dict(counts), sorted(left)


def _is_own(node: ir.Node) -> bool:
    return node.domain == MICROSOFT or (node.domain in ("", "ai.onnx") and node.op_type in _MISPLACED)


_MISPLACED = ("SimplifiedLayerNormalization",)
"""ONNX Runtime writes this one into the standard domain, which does not have it."""


def _is_float(node: ir.Node) -> bool:
    """Whether it computes float32, which the constants that are written have."""
    kind = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    return kind in (None, ir.DataType.FLOAT)


def _covers(node: ir.Node, results: dict[int, ir.Value]) -> bool:
    """Whether every output that is read has a replacement."""
    return all(
        index in results or not (list(value.uses()) or value.is_graph_output())
        for index, value in enumerate(node.outputs)
    )


def _input(node: ir.Node, index: int) -> ir.Value | None:
    return node.inputs[index] if len(node.inputs) > index else None


def _gelu(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value]:
    value, bias = node.inputs[0], _input(node, 1)
    if bias is not None:
        value = writer.add("Add", [value, bias])
    erf = writer.add("Erf", [writer.add("Div", [value, writer.number(np.float32(np.sqrt(2)))])])
    twice = writer.add("Mul", [value, writer.add("Add", [erf, writer.number(1.0)])])
    return {0: writer.add("Mul", [twice, writer.number(0.5)])}


def _fast_gelu(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value]:
    """x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    value, bias = node.inputs[0], _input(node, 1)
    if bias is not None:
        value = writer.add("Add", [value, bias])
    cube = writer.add("Mul", [writer.add("Mul", [value, value]), value])
    inner = writer.add("Add", [value, writer.add("Mul", [cube, writer.number(0.044715)])])
    tanh = writer.add("Tanh", [writer.add("Mul", [inner, writer.number(np.float32(np.sqrt(2 / np.pi)))])])
    twice = writer.add("Mul", [value, writer.add("Add", [tanh, writer.number(1.0)])])
    return {0: writer.add("Mul", [twice, writer.number(0.5)])}


def _quick_gelu(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value]:
    alpha = writer.number(node.attributes.get_float("alpha", 1.702))
    sigmoid = writer.add("Sigmoid", [writer.add("Mul", [node.inputs[0], alpha])])
    return {0: writer.add("Mul", [node.inputs[0], sigmoid])}


def _skip_norm(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value] | None:
    """Inputs: x, skip, gamma, beta, bias; output 3 is the sum."""
    if writer.opset < _HAS_LAYER_NORMALIZATION:
        return None
    total = writer.add("Add", [node.inputs[0], node.inputs[1]])
    if (bias := _input(node, 4)) is not None:
        total = writer.add("Add", [total, bias])
    operands = [total, node.inputs[2], *filter(None, [_input(node, 3)])]
    epsilon = node.attributes.get_float("epsilon", 1e-12)
    return {0: writer.add("LayerNormalization", operands, axis=-1, epsilon=epsilon), 3: total}


def _skip_rms(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value]:
    """Inputs: x, skip, gamma, bias; output 3 is the sum."""
    total = writer.add("Add", [node.inputs[0], node.inputs[1]])
    if (bias := _input(node, 3)) is not None:
        total = writer.add("Add", [total, bias])
    return {0: _rms_of(total, node.inputs[2], node, writer, 1e-12), 3: total}


def _rms(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value] | None:
    if node.attributes.get_int("axis", -1) != -1:
        return None
    return {0: _rms_of(node.inputs[0], node.inputs[1], node, writer, 1e-5)}


def _rms_of(
    value: ir.Value | None, gamma: ir.Value | None, node: ir.Node, writer: NodeWriter, epsilon: float
) -> ir.Value:
    """X / sqrt(mean(x^2) + epsilon) * gamma, over the last axis."""
    square = writer.add("Mul", [value, value])
    if writer.opset >= 18:
        mean = writer.add("ReduceMean", [square, writer.integers([-1])], keepdims=1)
    else:
        mean = writer.add("ReduceMean", [square], axes=[-1], keepdims=1)
    small = writer.number(node.attributes.get_float("epsilon", epsilon))
    root = writer.add("Sqrt", [writer.add("Add", [mean, small])])
    return writer.add("Mul", [writer.add("Div", [value, root]), gamma])


def _fused_matmul(node: ir.Node, writer: NodeWriter) -> dict[int, ir.Value] | None:
    if any(node.attributes.get_int(name, 0) for name in ("transBatchA", "transBatchB")):
        return None
    operands = []
    for index, name in enumerate(("transA", "transB")):
        value = node.inputs[index]
        if node.attributes.get_int(name, 0):
            rank = len(value.shape) if value is not None and value.shape is not None else 0
            if value is None or rank < 2:
                return None
            value = writer.transpose(value, [*range(rank - 2), rank - 1, rank - 2])
        operands.append(value)
    product = writer.add("MatMul", operands)
    alpha = node.attributes.get_float("alpha", 1.0)
    return {0: product if alpha == 1.0 else writer.add("Mul", [product, writer.number(alpha)])}


_RULES: dict[str, _Rule] = {
    "BiasGelu": _gelu,
    "FastGelu": _fast_gelu,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "QuickGelu": _quick_gelu,
    "SimplifiedLayerNormalization": _rms,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms,
}
