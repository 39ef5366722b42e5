"""Which values of a graph are of which type, also behind operators whose inference onnx does not know."""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.graph.inferred_shapes import infer_shapes
from optim_plugins.ort.graph.operator_types import signature, type_text

_TENSORS = {type_text(dtype): dtype for dtype in ir.DataType if dtype.name not in ("UNDEFINED", "STRING")}


def infer_types(graph: ir.Model) -> None:
    """Give every value its type, as far as it follows from the operators' definitions.

    Shape inference stops at operators of other domains; there an output has the type of the inputs that share its type
    variable, or the only one that its variable may be.
    """
    infer_shapes(graph)
    opsets = graph.graph.opset_imports
    for node in graph.graph.all_nodes():
        if all(value.type is not None for value in node.outputs):
            continue
        types = signature(node, opsets)
        if types is None:
            continue
        known = {
            types.input(place): value.dtype
            for place, value in enumerate(node.inputs)
            if value is not None and value.dtype is not None
        }
        for place, value in enumerate(node.outputs):
            variable = types.output(place)
            dtype = known.get(variable) or _only(types.allowed.get(variable, frozenset({variable})))
            if value.type is None and dtype is not None:
                value.type = ir.TensorType(dtype)


def is_float32(value: ir.Value | None) -> bool:
    """Whether it is known to be a float32 tensor."""
    return value is not None and value.dtype == ir.DataType.FLOAT and isinstance(value.type, ir.TensorType)


def _only(allowed: frozenset[str]) -> ir.DataType | None:
    return _TENSORS.get(next(iter(allowed))) if len(allowed) == 1 else None
