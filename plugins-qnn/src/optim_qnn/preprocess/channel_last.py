"""Inputs and outputs turned to channels-last, and how to compare such a model with the original.

Before::

    x [N, C, H, W] -> ...                               ... -> y [N, C, H, W]

After::

    x [N, H, W, C] -> Transpose -> ...                  ... -> Transpose -> y [N, H, W, C]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optim import OptimError
from optim.arrays import Feeds, Outputs

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim import Context

_LEAST_RANK = 3


def turned(graph: ir.Model, context: Context, inputs: Sequence[str], outputs: Sequence[str]) -> ir.Model:
    """The graph with these inputs and outputs channels-last.

    Raises:
        OptimError[no-channels]: one has fewer than three dimensions.
    """
    import onnx_ir
    from onnxruntime.quantization.execution_providers.qnn.preprocess import update_io_to_channel_last

    for value in (*graph.graph.inputs, *graph.graph.outputs):
        if value.name in (*inputs, *outputs) and (value.shape is None or len(value.shape) < _LEAST_RANK):
            raise OptimError.usage(
                "no-channels",
                f"'{value.name}' cannot be turned to channels-last",
                f"its shape is {value.shape}; channels are the second of at least three dimensions",
                "leave it out of channel_last_inputs and channel_last_outputs",
            )
    source = context.scratch / "to_turn.onnx"
    onnx_ir.save(graph, source, external_data="to_turn.data")
    import onnx

    proto = onnx.load(source, load_external_data=False)
    update_io_to_channel_last(proto, list(inputs), list(outputs))
    target = context.scratch / "turned.onnx"
    onnx.save(proto, target)
    found = onnx_ir.load(target)
    found.graph.sort()
    return found


def turned_names(inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, Any]:
    """Parameters of the two functions below."""
    return {"inputs": list(inputs), "outputs": list(outputs)}


def feeds_channel_last(feeds: Feeds, inputs: Sequence[str], outputs: Sequence[str]) -> Feeds:
    """The original's feeds as the turned model takes them."""
    import numpy as np

    return {name: np.ascontiguousarray(np.moveaxis(a, 1, -1)) if name in inputs else a for name, a in feeds.items()}


def outputs_channel_first(arrays: Outputs, inputs: Sequence[str], outputs: Sequence[str]) -> Outputs:
    """The turned model's outputs as the original gives them."""
    import numpy as np

    return {name: np.moveaxis(a, -1, 1) if name in outputs else a for name, a in arrays.items()}
