"""How far a node may be off, by its precision alone: what rounding does to the same node of the reference.

The reference's node is run once more on what it is given, rounded as the other model's node rounds it: to 8 bits over
the whole tensor, to half precision. Conditioning, outliers and cancellation are in what comes out, so no table of
operators is needed. What a node may be off by is :data:`_MARGIN` times that, and never all
of its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from optim.arrays import Array
from optim.onnx import constant_values
from optim_plugins.diagnose.graphs.cutting import GraphPart, OpenGraph, read_by

FLOAT_LIMIT = 1e-4
"""Relative L2 of a float32 node: fused kernels are off by up to 1e-5, on operators that cancel by some more."""

_APPROXIMATE = ("FastGelu", "QuickGelu", "BiasSplitGelu")
_APPROXIMATE_LIMIT = 5e-3
_HALF_STEP = 2.0**-11
_MARGIN = 4.0
"""Bad scales of the corpus are beyond 6, honest calibration is below 3; per-tensor rounding is the coarsest honest."""

_INTEGER_INPUTS = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinear", "QGemm", "QAttention", "DynamicQuantize")
_READS_INTEGERS = ("DequantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul", "QLinearConv", "QGemm")
_BITS = {ir.DataType.INT4: 4, ir.DataType.UINT4: 4, ir.DataType.INT2: 2, ir.DataType.UINT2: 2} | dict.fromkeys(
    (ir.DataType.INT8, ir.DataType.UINT8), 8
)


@dataclass(frozen=True, slots=True)
class ExpectedPrecision:
    """How the nodes that make a value round.

    Attributes:
        inputs: activations are quantized.
        weights: weights are quantized, to so many bits; 0: they are not.
        half: bits of the fraction of a 16-bit float type that occurs, 0 without one.
        approximate: an operator among them that is an approximation by design.
    """

    inputs: bool = False
    weights: int = 0
    half: int = 0
    approximate: bool = False

    @property
    def kind(self) -> str:
        """``int8``, ``half`` or ``float``: how to round the reference."""
        return "int8" if self.inputs or self.weights else "half" if self.half else "float"

    def limit(self, simulated: float) -> float:
        """What the value may be off by, relative L2.

        Args:
            simulated: what rounding did to it in the reference; infinite where that overflows, and then no help.
        """
        base = _APPROXIMATE_LIMIT if self.approximate else FLOAT_LIMIT
        if self.half:
            base = max(base, _MARGIN * 2.0 ** -(self.half + 1))
        if self.kind == "float":
            return base
        coarser = 2.0 ** (7 - self.weights) if 0 < self.weights < 8 else 1.0
        return max(base, _with_margin(coarser * (simulated if simulated < 1 else _HALF_STEP)))


def _with_margin(error: float) -> float:
    """:data:`_MARGIN` times a small error, and never as far as 1: that is what a value put to zero is off by."""
    return _MARGIN * error / (1 - error + _MARGIN * error) if error < 1 else error


def precision_of(graph: OpenGraph, part: GraphPart) -> ExpectedPrecision:
    """How the nodes of a part round, by their operators and by the types that they read and make."""
    operators = {node.op_type for node in part.nodes}
    weights = 0
    for value in graph.weights(part):
        kind = _stored_type(value)
        integers = value.producer() is not None or any(use.node.op_type in _READS_INTEGERS for use in value.uses())
        if integers and kind in _BITS:
            weights = min(weights or 8, _BITS[kind])
    for node in part.nodes:
        if "NBits" in node.op_type or "BlockQuantized" in node.op_type:
            bits = int(node.attributes["bits"].as_int()) if "bits" in node.attributes else 4
            weights = min(weights or bits, bits)
    types = {graph.dtype(value) for node in part.nodes for value in (*read_by(node), *node.outputs)}
    half = 7 if "bfloat16" in types else 10 if "float16" in types else 0
    return ExpectedPrecision(
        any(operator.startswith(_INTEGER_INPUTS) or operator.endswith("Integer") for operator in operators),
        weights,
        half,
        bool(operators & set(_APPROXIMATE)),
    )


def _stored_type(value: ir.Value) -> ir.DataType | None:
    """Of the weight that a value is made of."""
    producer = value.producer()
    if producer is not None and producer.inputs and producer.inputs[0] is not None:
        return _stored_type(producer.inputs[0])
    return value.dtype


def as_rounded(array: Array, precision: ExpectedPrecision) -> Array:
    """An input of the model, rounded as what only passes it on rounds it."""
    if precision.kind == "half":
        most = float(np.finfo(np.float16).max)
        return np.clip(array, -most, most).astype(np.float16).astype(array.dtype)
    low, high = min(0.0, float(array.min(initial=0))), max(0.0, float(array.max(initial=0)))
    step = (high - low) / 255 or 1.0
    found: Array = (np.round(array.astype(np.float64) / step) * step).astype(array.dtype)
    return found


def rounded(graph: ir.Model, precisions: Mapping[str, ExpectedPrecision]) -> None:
    """Have nodes of a graph that was cut read rounded what they are given and weigh with.

    Args:
        graph: changed in place.
        precisions: of nodes, by the name of their first output.
    """
    known: dict[tuple[ir.Value, str], ir.Value] = {}
    given = set(graph.graph.inputs)
    fixed = constant_values(graph)
    for node in list(graph.graph):
        precision = precisions.get(node.outputs[0].name or "")
        if precision is None or precision.kind == "float":
            continue
        for place, value in enumerate(node.inputs):
            if value is None or value not in given | fixed or _type(value) != ir.DataType.FLOAT:
                continue
            wanted = precision.weights if value in fixed else precision.inputs
            if (precision.kind == "int8" and not wanted) or (value in fixed and _is_small(value)):
                continue
            if (value, precision.kind) not in known:
                known[value, precision.kind] = _rounded(graph.graph, value, node, precision.kind)
            node.replace_input_with(place, known[value, precision.kind])


def _rounded(graph: ir.Graph, value: ir.Value, before: ir.Node, kind: str) -> ir.Value:
    if kind == "half":
        down = ir.node("Cast", [value], {"to": int(ir.DataType.FLOAT16)})
        nodes = [down, ir.node("Cast", [down.outputs[0]], {"to": int(ir.DataType.FLOAT)})]
    else:
        down = ir.node("DynamicQuantizeLinear", [value], num_outputs=3)
        nodes = [down, ir.node("DequantizeLinear", list(down.outputs))]
    for number, node in enumerate(nodes):
        node.name = f"optim_rounded_{kind}_{value.name}_{number}"
        for place, output in enumerate(node.outputs):
            output.name = f"{node.name}_{place}"
    graph.insert_before(before, nodes)
    return nodes[-1].outputs[0]


def _type(value: ir.Value) -> ir.DataType | None:
    producer = value.producer()
    if value.dtype is None and producer is not None and producer.inputs and producer.inputs[0] is not None:
        return producer.inputs[0].dtype  # what moves a weight about keeps its type
    return value.dtype


def _is_small(value: ir.Value) -> bool:
    return value.shape is not None and len(value.shape) < 2
