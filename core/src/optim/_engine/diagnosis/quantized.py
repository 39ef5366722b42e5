"""Values of operators on integers made visible as floats, and values in the steps of a quantized one.

Before::

    q -> QLinearConv -> r -> QLinearAdd -> s

After; the two inserted nodes undo each other exactly, and ``r_dequantized`` is a float value like any other::

    q -> QLinearConv -> r -> DequantizeLinear -> r_dequantized -> QuantizeLinear -> QLinearAdd -> s
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim._engine.diagnosis.cutting import Part
from optim.arrays import Array

_SCALE_OF_OUTPUT = {
    "QLinearConv": 6,
    "QLinearMatMul": 6,
    "QLinearAdd": 6,
    "QLinearMul": 6,
    "QLinearGlobalAveragePool": 3,
    "QLinearAveragePool": 3,
    "QLinearLeakyRelu": 3,
    "QLinearSigmoid": 3,
    "QLinearSoftmax": 3,
    "QLinearConcat": 0,
    "QGemm": 7,
}
"""Which input of an operator is the scale of its output; the zero point comes behind it."""


def with_float_views(graph: ir.Model) -> None:
    """Insert the two nodes behind every operator on integers whose scale is known; changed in place."""
    for node in list(graph.graph):
        place = _SCALE_OF_OUTPUT.get(node.op_type)
        if place is None or len(node.inputs) < place + 2:
            continue
        made, scale, zero = node.outputs[0], node.inputs[place], node.inputs[place + 1]
        if scale is None or zero is None:
            continue
        down = ir.node("DequantizeLinear", [made, scale, zero], name=f"{node.name}_dequantized")
        up = ir.node("QuantizeLinear", [down.outputs[0], scale, zero], name=f"{node.name}_requantized")
        down.outputs[0].name, up.outputs[0].name = f"{made.name}_dequantized", f"{made.name}_requantized"
        graph.graph.insert_after(node, [down, up])
        ir.convenience.replace_all_uses_with(made, up.outputs[0], replace_graph_outputs=True)
        down.replace_input_with(0, made)


Steps = NDArray[np.float64]


def step_of(part: Part, rank: int) -> Steps | None:
    """The scale of the last QuantizeLinear of a part, ready to divide a value of so many axes; None without one."""
    node = next((node for node in reversed(part.nodes) if node.op_type == "QuantizeLinear"), None)
    scale = node.inputs[1] if node is not None and len(node.inputs) > 1 else None
    tensor = ir.convenience.get_const_tensor(scale) if scale is not None else None
    if node is None or tensor is None or not (step := tensor.numpy().astype(np.float64)).all():
        return None
    if step.size == 1:
        return step.reshape(())
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    if step.ndim != 1 or not -rank <= axis < rank:  # in blocks
        return None
    return step.reshape([-1 if place == axis % rank else 1 for place in range(rank)])


def in_steps(array: Array, step: Steps) -> Array:
    """A value as a quantizer leaves it that clips nothing."""
    found: Array = (np.round(array.astype(np.float64) / step) * step).astype(array.dtype)
    return found
