"""What a file says of values between its nodes and is not true: exporters that rewrite a graph leave what was there.

A runtime warns and goes on. Quantizers, fusions and replays of single nodes believe it, and break.
"""

from __future__ import annotations

import onnx


def forget_stale_shapes(skeleton: onnx.ModelProto) -> None:
    """Take types and shapes of values between nodes away where inference from the inputs says something else.

    Args:
        skeleton: from :func:`optim.onnx.skeleton.read_skeleton`, valid; changed in place. What inference knows nothing
            of is kept: it does not see through operators of a runtime's own.
    """
    if not skeleton.graph.value_info:
        return
    bare = onnx.ModelProto()
    bare.CopyFrom(skeleton)
    del bare.graph.value_info[:]
    try:
        found = onnx.shape_inference.infer_shapes(bare)
    except (onnx.shape_inference.InferenceError, ValueError):  # a graph that it cannot read at all
        return
    inferred = {value.name: value.type.tensor_type for value in found.graph.value_info}
    declared = list(skeleton.graph.value_info)
    del skeleton.graph.value_info[:]
    skeleton.graph.value_info.extend(
        value
        for value in declared
        if value.name not in inferred or not _contradict(value.type.tensor_type, inferred[value.name])
    )


def _contradict(declared: onnx.TypeProto.Tensor, inferred: onnx.TypeProto.Tensor) -> bool:
    if declared.elem_type and inferred.elem_type and declared.elem_type != inferred.elem_type:
        return True
    if not declared.HasField("shape") or not inferred.HasField("shape"):
        return False
    sizes, others = declared.shape.dim, inferred.shape.dim
    return len(sizes) != len(others) or any(
        one.HasField("dim_value") and other.HasField("dim_value") and one.dim_value != other.dim_value
        for one, other in zip(sizes, others, strict=True)
    )
