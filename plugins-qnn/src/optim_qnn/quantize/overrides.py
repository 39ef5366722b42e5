"""What the user says of single tensors, and a check afterwards: the quantizer drops what it cannot use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir

from optim.errors import ExitStatus, OptimError, unknown_name
from optim_qnn.quantize.tensor_types import Overrides

_KEYS = ("type", "symmetric", "axis", "scale", "zero_point", "rmin", "rmax")
_TYPES = ("uint8", "uint16", "int8", "int16", "int4")
_FIX = "optim passes show qnn.quantize"


def parsed(graph: ir.Model, given: Mapping[str, Mapping[str, Any]], types: Mapping[str, Any]) -> Overrides:
    """Overrides as onnxruntime's quantizer takes them.

    Raises:
        OptimError[unknown-tensor]: lists the near ones.
        OptimError[bad-override]: an unknown key or type, or a scale without a zero point.
    """
    known = {value.name or "" for value in graph.graph.inputs} | set(graph.graph.initializers)
    known |= {value.name or "" for node in graph.graph for value in node.outputs}
    found: Overrides = {}
    for tensor, values in given.items():
        if tensor not in known:
            raise unknown_name("tensor", tensor, known, fix="names are those of the graph after qnn.preprocess")
        unknown = [key for key in values if key not in _KEYS]
        kind = values.get("type")
        if unknown or (kind is not None and kind not in _TYPES) or ("scale" in values) != ("zero_point" in values):
            raise OptimError.usage(
                "bad-override",
                f"the override of '{tensor}' cannot be used",
                f"it is {dict(values)}",
                f"keys are {', '.join(_KEYS)}; types {', '.join(_TYPES)}; scale and zero_point go together: {_FIX}",
                "optim-plugin-qnn",
            )
        found[tensor] = [_entry(values, types)]
    return found


def require_applied(graph: ir.Model, given: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse a quantized graph in which an override has no effect.

    Raises:
        OptimError[override-dropped]: names the tensor.
    """
    made: dict[str, str] = {}
    for node in graph.graph:
        if node.op_type == "QuantizeLinear" and node.inputs[0] is not None:
            made[_original(node.inputs[0].name or "")] = _type_of(node.outputs[0])
        elif node.op_type == "DequantizeLinear" and node.inputs[0] is not None and node.inputs[0].is_initializer():
            made[(node.inputs[0].name or "").removesuffix("_quantized")] = _type_of(node.inputs[0])
    for tensor, values in given.items():
        wanted = values.get("type")
        got = made.get(tensor)
        if got is None or (wanted is not None and got != wanted):
            became = "the tensor is not quantized" if got is None else f"it is {got}"
            raise OptimError(
                "override-dropped",
                f"the override of '{tensor}' has no effect",
                f"{wanted or dict(values)} was asked for; {became}",
                "leave it out, or override the tensor that the node really reads",
                "optim-plugin-qnn",
                ExitStatus.NOT_HELD,
            )


def _entry(values: Mapping[str, Any], types: Mapping[str, Any]) -> dict[str, Any]:
    import numpy as np

    entry: dict[str, Any] = {key: values[key] for key in ("symmetric", "axis", "rmin", "rmax") if key in values}
    if "type" in values:
        entry["quant_type"] = types[values["type"]]
    if "scale" in values:
        kind = values.get("type", "uint8")
        entry["scale"] = np.asarray(values["scale"], np.float32)
        entry["zero_point"] = np.asarray(values["zero_point"], np.dtype(kind))
    return entry


def _original(name: str) -> str:
    """The quantizer renames outputs of the graph and converted tensors."""
    for suffix in ("_QuantizeLinear_Input", "_QuantizeLinear_Output"):
        name = name.removesuffix(suffix)
    return name


def _type_of(value: ir.Value) -> str:
    tensor = value.const_value
    kind = tensor.dtype if tensor is not None else value.dtype
    if kind is None:
        producer = value.producer()
        zero = producer.inputs[2] if producer is not None and len(producer.inputs) > 2 else None
        kind = zero.const_value.dtype if zero is not None and zero.const_value is not None else None
    return kind.name.lower() if kind is not None else ""
