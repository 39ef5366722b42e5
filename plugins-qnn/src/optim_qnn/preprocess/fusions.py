"""onnxruntime's own fusions for QNN: Gelu, LpNormalization, SpaceToDepth, LayerNormalization."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from optim import Context

if TYPE_CHECKING:
    import onnx
    import onnx_ir as ir

_LAYER_NORM_OPSET = 17


def fused(graph: ir.Model, context: Context, *, layer_norm: bool) -> tuple[ir.Model, dict[str, int]]:
    """The fused graph, and how many operators of each kind it gained.

    Args:
        graph: folded.
        context: of the pass.
        layer_norm: also ReduceMean sequences as LayerNormalization.
    """
    import onnx_ir
    from onnxruntime.quantization.execution_providers.qnn import preprocess as qnn
    from onnxruntime.quantization.onnx_model import ONNXModel

    proto = onnx_ir.to_proto(graph)
    before = _operators(proto)
    wrapped = ONNXModel(proto)
    fusions = [qnn.FusionGelu, qnn.FusionLpNormalization, qnn.FusionSpaceToDepth]
    if layer_norm and graph.opset_imports.get("", 0) >= _LAYER_NORM_OPSET:
        fusions.append(qnn.FusionLayerNormalization)
    changed = [fusion(wrapped).apply() for fusion in fusions]
    if not any(changed):
        return graph, {}
    wrapped.topological_sort()
    gained = _operators(wrapped.model) - before
    found = onnx_ir.from_proto(wrapped.model)
    for value in found.graph.initializers.values():
        if isinstance(value.const_value, onnx_ir.ExternalTensor):
            value.const_value = onnx_ir.ExternalTensor(
                value.const_value.location,
                value.const_value.offset,
                value.const_value.length,
                value.const_value.dtype,
                shape=value.const_value.shape,
                name=value.const_value.name or "",
                base_dir=context.scratch,
            )
    return found, dict(gained)


def _operators(proto: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in proto.graph.node)
