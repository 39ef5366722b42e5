"""Which tensors of a quantized model get which type."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import onnx_ir as ir

from optim import Model

if TYPE_CHECKING:
    from optim_qnn.quantize.quantize_options import QuantizeOptions

MOVES = frozenset(
    (
        "Reshape",
        "Transpose",
        "Flatten",
        "Squeeze",
        "Unsqueeze",
        "Expand",
        "Slice",
        "Split",
        "Gather",
        "GatherElements",
        "Concat",
        "Identity",
        "DepthToSpace",
        "SpaceToDepth",
        "Tile",
    )
)
"""Operators that move numbers and compute none: HTP wants one type and one scale on both sides."""

_MATRIX = 2
_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
Overrides = dict[str, list[dict[str, Any]]]


def typed(model: Model) -> ir.Model:
    """The graph with the type of every value, which a file need not say."""
    from optim.onnx import infer_shapes_again

    graph = model.ir()
    infer_shapes_again(graph)
    return graph


def computing_nodes(graph: ir.Model) -> tuple[str, ...]:
    """Names of the nodes that compute floats, in graph order."""
    return tuple(
        node.name
        for node in graph.graph
        if node.name and node.op_type not in (*MOVES, "Cast", "Constant") and any(map(_is_float, node.outputs))
    )


def types_with_kept(graph: ir.Model, keep: Collection[str], normal: Any, kept: Any) -> Overrides:
    """Types of the tensors around nodes that compute at 16 bits, as onnxruntime's quantizer takes them.

    ::

        A (8) -> t -> K (kept) -> u -> B (8)        t: 8, converted to 16 for K        u: 16, converted to 8 for B

    Args:
        graph: in float.
        keep: names of nodes.
        normal: the quantizer's type of 8 bits.
        kept: the quantizer's type of 16 bits.
    """
    wide = _with_movers(graph, keep)
    found: Overrides = {}
    for value in _float_values(graph):
        producer = value.producer()
        readers = {node.name or "" for node, _ in value.uses()}
        made_wide = producer is not None and producer.name in wide
        others = readers - wide if made_wide else readers & wide
        if not made_wide and not others:
            continue
        own, other = (kept, normal) if made_wide else (normal, kept)
        found[value.name or ""] = [{"quant_type": own}]
        if others:
            found[value.name or ""][0]["convert"] = {"quant_type": other, "recv_nodes": others}
    return found


def types_for_htp(graph: ir.Model, weight: Any, unsigned: Any, options: QuantizeOptions) -> Overrides:
    """What HTP takes and onnxruntime's settings for QNN leave out.

    A weight of MatMul may have a scale for each output channel, as that of Conv: on trained encoders that is the
    difference between a drift of 0.3 and one of 0.03. The scale of LayerNormalization must be unsigned 8 bits.

    Args:
        graph: in float.
        weight: the quantizer's type of weights.
        unsigned: the quantizer's type of unsigned 8 bits.
        options: whether there is a scale for each output channel where HTP takes it, and what stays in float.
    """
    found: Overrides = {}
    for node in graph.graph:
        weights = node.inputs[1] if len(node.inputs) > 1 else None
        if weights is None or weights.name is None or not weights.is_initializer():
            continue
        if node.name in options.float_nodes or node.op_type in options.float_operators:
            continue
        if node.op_type == "LayerNormalization":
            found[weights.name] = [{"quant_type": unsigned, "symmetric": False}]
        elif (
            node.op_type == "MatMul"
            and options.per_channel
            and weights.shape is not None
            and len(weights.shape) == _MATRIX
        ):
            found[weights.name] = [{"quant_type": weight, "symmetric": True, "axis": 1}]
    return found


def _with_movers(graph: ir.Model, keep: Collection[str]) -> set[str]:
    """The kept nodes, and those behind them that only move what they made: no precision is lost on the way."""
    wide = set(keep)
    for node in graph.graph:
        source = node.inputs[0].producer() if node.inputs and node.inputs[0] is not None else None
        if node.op_type in MOVES and node.op_type != "Concat" and source is not None and source.name in wide:
            wide.add(node.name or "")
    return wide


def _float_values(graph: ir.Model) -> list[ir.Value]:
    values = [*graph.graph.inputs, *(value for node in graph.graph for value in node.outputs)]
    return [value for value in values if _is_float(value) and not value.is_initializer()]


def _is_float(value: ir.Value) -> bool:
    return value.dtype in _FLOATS


def by_name(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Sorted, so that the same choice gives the same file."""
    return dict(sorted(overrides.items()))
