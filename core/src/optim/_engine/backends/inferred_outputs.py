"""What the outputs of a graph are by its own operators, where what it declares of them is in doubt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from optim.model import TensorInfo

_MOST_BYTES = 1 << 30
"""Shape inference copies the graph; weights beside it do not count."""


def inferred_outputs(path: Path) -> tuple[TensorInfo, ...]:
    """The outputs with the shapes that onnx infers from the operators alone; None for what it cannot tell.

    Exporters write shapes that are wrong, and ONNX Runtime runs such models with a warning.
    """
    import onnx
    from google.protobuf.message import DecodeError

    if path.stat().st_size > _MOST_BYTES:
        return ()
    model = onnx.load(path, load_external_data=False)
    declared = tuple(TensorInfo.of(value) for value in model.graph.output)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        found = onnx.shape_inference.infer_shapes(model)
    except (onnx.shape_inference.InferenceError, DecodeError, ValueError):
        return tuple(replace(info, shape=None) for info in declared)
    return tuple(TensorInfo.of(value) for value in found.graph.output)
