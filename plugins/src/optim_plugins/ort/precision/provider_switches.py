"""Switches without which a provider refuses a graph for the types in it.

ONNX Runtime 1.31 builds weakly typed networks of TensorRT: a float of 16 bits or a pair of 8-bit integers whose switch
is off ends the session, with "fp16 precision has been set for a layer or layer output, but fp16 is not configured in
the builder" in its log (https://github.com/microsoft/onnxruntime/issues/13381). For 8-bit floats and integers of 4 bits
there is no switch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import onnx_ir as ir

from optim import SessionConfig
from optim.providers import TENSORRT

_SWITCHES: Mapping[str, Mapping[ir.DataType, str]] = {
    TENSORRT: {
        ir.DataType.FLOAT16: "trt_fp16_enable",
        ir.DataType.BFLOAT16: "trt_bf16_enable",
        ir.DataType.INT8: "trt_int8_enable",
    }
}
_ON = "True"


def switched_on(provider: str, types: Iterable[ir.DataType]) -> SessionConfig:
    """Settings that a graph with values of these types needs on a provider; none for most."""
    names = _SWITCHES.get(provider, {})
    options = {names[kind]: _ON for kind in types if kind in names}
    return SessionConfig(provider_options={provider: options} if options else {})


def types_of(graph: ir.Model) -> set[ir.DataType]:
    """Types of inputs and weights, and those that are cast to."""
    found = {value.dtype for value in graph.graph.inputs}
    for part in graph.graphs():
        found |= {value.dtype for value in part.initializers.values()}
        for node in part:
            if node.op_type == "Cast":
                found.add(ir.DataType(node.attributes.get_int("to", ir.DataType.UNDEFINED.value)))
    return {kind for kind in found if kind is not None}
