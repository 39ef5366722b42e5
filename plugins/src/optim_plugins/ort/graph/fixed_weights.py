"""Weights that are listed among the inputs (as exporters did before IR version 4), and weights that nothing reads.

Inputs that take weights of adapters are weights in the same sense, and stay what they are.
"""

from __future__ import annotations

import onnx_ir as ir

from optim.decoders import KEPT_LOGITS
from optim.onnx import adapter_names

_FIRST_IR_WITHOUT_WEIGHTS_IN_INPUTS = 4


def fix_weights(graph: ir.Model) -> int:
    """Take weights out of the inputs, so that they are constants; how many there were.

    What takes weights of an adapter stays an input: its default is not what a run computes with. So does what asks for
    fewer logits, and what is there to be chosen by whoever runs the model.
    """
    left = {*adapter_names(graph), KEPT_LOGITS}
    listed = [value for value in graph.graph.inputs if value.is_initializer() and value.name not in left]
    fixed = [value for value in listed if not _is_choice(value, graph)]
    for value in fixed:
        graph.graph.inputs.remove(value)
    if fixed:
        graph.ir_version = max(graph.ir_version, _FIRST_IR_WITHOUT_WEIGHTS_IN_INPUTS)
    return len(fixed)


def _is_choice(value: ir.Value, graph: ir.Model) -> bool:
    """Whether an input has a default rather than a weight: where weights need not be inputs, and most are none.

    A number or a switch is one anyway: exporters that list all their weights write these as Constant nodes.
    """
    if (graph.ir_version or 0) < _FIRST_IR_WITHOUT_WEIGHTS_IN_INPUTS or value.const_value is None:
        return False
    if value.const_value.shape.rank() == 0 or value.const_value.dtype == ir.DataType.BOOL:
        return True
    found = [one for one in graph.graph.initializers.values() if one.const_value is not None]
    weights = [one for one in found if one.const_value is not None and one.const_value.shape.rank() > 1]
    return 2 * sum(not one.is_graph_input() for one in weights) > len(weights)


def drop_unread_weights(graph: ir.Model) -> None:
    """Remove weights that nothing reads any more, from branches and bodies too, where onnx-ir leaves them."""
    for part in graph.graphs():
        for name, value in list(part.initializers.items()):
            if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
                part.initializers.pop(name)
