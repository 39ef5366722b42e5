"""LSTMs with 8-bit weights, activations quantized at each step.

Before::

    Y, Y_h, Y_c = LSTM(X, W, R, B, ...)                     W [directions, 4 H, I], R [directions, 4 H, H], constant

After, with one scale for each of the 4 H columns::

    Y, Y_h, Y_c = com.microsoft.DynamicQuantizeLSTM(X, W_q^T, R_q^T, B, ..., W_scale, W_zero, R_scale, R_zero)

A step multiplies a single row, so the time goes to reading weights: on a small LSTM nothing is gained. GRU has no such
operator. Operator: onnxruntime ``docs/ContribOperators.md``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from optim.arrays import Array
from optim.onnx import UniqueNames, add_constant, read_constant
from optim_plugins.ort.quantize.integer_weights import Floats, IntegerWeight, quantize_weight
from optim_plugins.ort.quantize.product_rewriter import MICROSOFT

LEAST_ELEMENTS = 1 << 18
"""Of W and R together. With 131,072 (128 units) it took 0.82 to 1.12 of the time of floats, with 2 million 0.18."""

_INPUTS = 8
"""Of an LSTM: X, W, R, B, sequence_lens, initial_h, initial_c, P."""


def find_lstms(graph: ir.Model) -> Iterator[ir.Node]:
    """LSTMs of large constant weights, in the graph's order, in branches and bodies too."""
    for node in graph.graph.all_nodes():
        if node.op_type != "LSTM" or node.domain not in ("", "ai.onnx") or node.attributes.get_int("layout", 0) != 0:
            continue
        tensors = [ir.convenience.get_const_tensor(value) if value is not None else None for value in node.inputs[1:3]]
        fixed = not any(value is not None and value.is_graph_input() for value in node.inputs[1:3])
        sizes = [tensor.size for tensor in tensors if tensor is not None and tensor.dtype == ir.DataType.FLOAT]
        if fixed and len(sizes) == 2 and sum(sizes) >= LEAST_ELEMENTS:
            yield node


def name_of(node: ir.Node) -> str:
    """What ``keep`` calls it."""
    return node.name or next((value.name for value in node.outputs if value.name), "") or ""


def quantize_lstm(graph: ir.Model, node: ir.Node, *, per_channel: bool, reduce_range: bool) -> bool:
    """Put the operator in the place of an LSTM; False where a weight is not finite."""
    weights = [_directions(read_constant(value), per_channel, reduce_range) for value in node.inputs[1:3]]
    if any(weight is None for weight in weights):
        return False
    names, name = UniqueNames(graph), name_of(node)
    stored: list[list[ir.Value]] = []
    for part, found in zip("WR", weights, strict=True):
        assert found is not None
        arrays: dict[str, Array] = {
            "quantized": np.stack([one.integers for one in found]),
            "scale": np.stack([one.scale for one in found]),
            "zero_point": np.zeros([len(found), *found[0].scale.shape], np.int8),
        }
        stored.append([add_constant(graph.graph, names.take(f"{name}_{part}_{key}"), arrays[key]) for key in arrays])
    given = [*node.inputs, *[None] * (_INPUTS - len(node.inputs))]
    given[1], given[2] = stored[0][0], stored[1][0]
    attributes = {key: value for key, value in node.attributes.items() if key != "layout"}
    operands = [*given, *stored[0][1:], *stored[1][1:]]
    new = ir.node("DynamicQuantizeLSTM", operands, domain=MICROSOFT, num_outputs=len(node.outputs), name=node.name)
    new.attributes.update(attributes)
    new.metadata_props.update(node.metadata_props)
    assert node.graph is not None
    node.graph.insert_before(node, new)
    for old, made in zip(node.outputs, new.outputs, strict=True):
        made.type, made.shape, made.name, old.name = old.type, old.shape, old.name, f"{old.name}_of_floats"
        ir.convenience.replace_all_uses_with(old, made, replace_graph_outputs=True)
    node.graph.remove(node, safe=True)
    return True


def _directions(weight: Floats, per_channel: bool, reduce_range: bool) -> list[IntegerWeight] | None:
    """[directions, N, K] as integers [K, N] for each direction; None where one is not finite."""
    found = [
        quantize_weight(one, transposed=True, per_channel=per_channel, reduce_range=reduce_range) for one in weight
    ]
    return None if any(one is None for one in found) else [one for one in found if one is not None]
