"""What an operator's definition says of types: which inputs and outputs share one, and which types it may be.

The standard operators' definitions come from onnx, those of com.microsoft from onnxruntime itself. LayerNormalization,
for one, has inputs ``T T T`` and outputs ``T U U``, where T may be float16 and U may not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import onnx.defs
import onnx_ir as ir

_NAMES = {
    ir.DataType.FLOAT: "tensor(float)",
    ir.DataType.FLOAT16: "tensor(float16)",
    ir.DataType.BFLOAT16: "tensor(bfloat16)",
}
_STANDARD = ("", "ai.onnx")


def type_text(dtype: ir.DataType) -> str:
    """A tensor type as definitions and kernels spell it."""
    return _NAMES.get(dtype, f"tensor({dtype.name.lower()})")


@dataclass(frozen=True, slots=True)
class Signature:
    """The types of an operator.

    Attributes:
        since: version of the operator set that defined it.
        inputs: the type of each, a variable such as ``T`` or a fixed ``tensor(int64)``; the last one repeats where
            the operator takes any number.
        outputs: the same.
        allowed: the types that each variable may be.
    """

    since: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    allowed: Mapping[str, frozenset[str]]
    repeats: bool = False

    def input(self, place: int) -> str:
        """The type of an input; empty where there is none."""
        return self._at(self.inputs, place)

    def output(self, place: int) -> str:
        """The type of an output; empty where there is none."""
        return self._at(self.outputs, place)

    def takes(self, variable: str, dtype: ir.DataType) -> bool:
        """Whether a variable may be this type; a fixed type is itself alone."""
        return type_text(dtype) in self.allowed.get(variable, frozenset({variable}))

    def _at(self, types: tuple[str, ...], place: int) -> str:
        if place < len(types):
            return types[place]
        return types[-1] if types and self.repeats else ""


def signature(node: ir.Node, opsets: Mapping[str, int]) -> Signature | None:
    """The types of a node's operator; None where nobody defines it."""
    domain = "" if node.domain in _STANDARD else node.domain
    version = opsets.get(domain) or opsets.get("ai.onnx" if domain == "" else domain)
    if version is None:
        return None
    return _standard(node.op_type, version) if domain == "" else _contributed().get((domain, node.op_type))


@cache
def _standard(operator: str, version: int) -> Signature | None:
    try:
        schema = onnx.defs.get_schema(operator, version, "")
    except onnx.defs.SchemaError:
        return None
    variadic = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return Signature(
        schema.since_version,
        tuple(parameter.type_str for parameter in schema.inputs),
        tuple(parameter.type_str for parameter in schema.outputs),
        {one.type_param_str: frozenset(one.allowed_type_strs) for one in schema.type_constraints},
        any(p.option == variadic and p.is_homogeneous for p in (*schema.inputs, *schema.outputs)),
    )


@cache
def _contributed() -> dict[tuple[str, str], Signature]:
    """Onnxruntime's own operators; it has one version of each."""
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    found = {}
    for schema in runtime.get_all_operator_schema():
        if schema.domain in _STANDARD:
            continue
        found[schema.domain, schema.name] = Signature(
            schema.since_version,
            tuple(parameter.typeStr for parameter in schema.inputs),
            tuple(parameter.typeStr for parameter in schema.outputs),
            {one.type_param_str: frozenset(one.allowed_type_strs) for one in schema.type_constraints},
        )
    return found
