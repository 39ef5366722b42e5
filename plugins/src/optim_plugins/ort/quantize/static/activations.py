"""What an activation makes of the tensor that it reads: an error there counts as far as it comes out behind.

SiLU, ``x * Sigmoid(x)``, makes next to nothing of all that is far below 0, and HardSwish nothing. A range that spends
its integers there has few left for what matters: where every reader of a tensor belongs to one activation, its range is
the one of least error behind that.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from optim.onnx import only_reader
from optim_plugins.ort.graph.written_gelu import WrittenGelu
from optim_plugins.ort.measure.integer_ranges import Activation, Reals

_STANDARD = ("", "ai.onnx")
_GATES = ("Sigmoid", "HardSigmoid")


def gate_of(product: ir.Node) -> ir.Node | None:
    """The Sigmoid or HardSigmoid whose input a Mul multiplies it with, where nothing else reads it."""
    if product.op_type != "Mul" or product.domain not in _STANDARD or len(product.inputs) != 2:
        return None
    for source, factor in (product.inputs, product.inputs[::-1]):
        gate = factor.producer() if factor is not None and only_reader(factor) is product else None
        if gate is not None and _is_gate(gate) and gate.inputs[0] is source:
            return gate
    return None


def activation_behind(value: ir.Value, gelus: Mapping[ir.Value, WrittenGelu]) -> Activation | None:
    """What becomes of a tensor behind its readers; None where these are not one activation.

    Args:
        value: read by anything.
        gelus: of the graph, by what they begin with.
    """
    readers = {use.node for use in value.uses()}
    if value in gelus and readers <= gelus[value].nodes and not value.is_graph_output():
        return _gelu
    gate = next((node for node in readers if _is_gate(node)), None)
    if gate is None or value.is_graph_output():
        return None
    factor = _hard_sigmoid(gate) if gate.op_type == "HardSigmoid" else _sigmoid
    left = readers - {gate}
    if not left:
        return factor
    if len(left) == 1 and gate_of(left.pop()) is gate:
        return lambda x: x * factor(x)
    return None


def _is_gate(node: ir.Node) -> bool:
    return node.op_type in _GATES and node.domain in _STANDARD


def _sigmoid(x: Reals) -> Reals:
    return np.asarray(0.5 * (1 + np.tanh(x / 2)))


def _gelu(x: Reals) -> Reals:
    """By its usual approximation, which is within 0.001: ranges need no more."""
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))))


def _hard_sigmoid(node: ir.Node) -> Activation:
    alpha, beta = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
    return lambda x: np.clip(alpha * x + beta, 0, 1)
