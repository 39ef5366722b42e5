"""Which inputs of a graph take weights of adapters, as its metadata says.

    metadata_props["optim.adapters"] = [{"name": "q.lora_A", "module": "layers.0.q", "role": "down", "required": false}]

An adapter input is an input of the graph. One that is not required is an initializer as well, whose value is the
default: a run may replace it, so it is no constant, and nothing may be computed from it ahead of time.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import onnx
import onnx_ir as ir

from optim.model import AdapterInput, TensorInfo

KEY = "optim.adapters"
"""Of the metadata."""


def adapter_inputs_of(model: onnx.ModelProto) -> tuple[AdapterInput, ...]:
    """The adapter inputs of a graph, in the order of its inputs; what only its metadata names is left out."""
    from optim.onnx.files import tensor_info

    known = {entry.key: entry.value for entry in model.metadata_props}
    said = {one["name"]: one for one in _read(known)}
    return tuple(
        AdapterInput(
            tensor_info(value), said[value.name]["module"], said[value.name]["role"], said[value.name]["required"]
        )
        for value in model.graph.input
        if value.name in said
    )


def adapter_names(graph: ir.Model) -> frozenset[str]:
    """Names of the adapter inputs of a graph."""
    return frozenset(one["name"] for one in _read(graph.metadata_props))


def name_adapter_inputs(graph: ir.Model, inputs: Iterable[AdapterInput]) -> None:
    """Say in the metadata of a graph which of its inputs take weights of adapters, in place of what was said before."""
    listed = [
        {"name": one.info.name, "module": one.module, "role": one.role, "required": one.required} for one in inputs
    ]
    graph.metadata_props[KEY] = json.dumps(listed)


def keep_adapter_inputs(graph: ir.Model, inputs: Sequence[AdapterInput]) -> None:
    """Say of a graph that a library wrote what its predecessor said: a library may have dropped the metadata."""
    if inputs:
        name_adapter_inputs(graph, inputs)
    else:
        graph.metadata_props.pop(KEY, None)


def lost_adapter_inputs(before: Sequence[AdapterInput], after: Sequence[AdapterInput], fixed: Iterable[str]) -> str:
    """What a pass did to adapter inputs that it may not do; empty where they are as they were.

    Args:
        before: of the model that it was given.
        after: of the model that it made.
        fixed: names of inputs of that model that have no default.
    """
    found = {one.info.name: one for one in after}
    without_default = set(fixed)
    for one in before:
        name, now = one.info.name, found.get(one.info.name)
        if now is None:
            return f"adapter input '{name}' is gone: what it would be fed had no effect"
        if _same_rank(now.info, one.info) != one.info or replace(now, info=one.info) != one:
            return f"adapter input '{name}' changed from {_text(one.info)} to {_text(now.info)}"
        if not one.required and name in without_default:
            return f"adapter input '{name}' lost its default: the model does not run without an adapter any more"
    return ""


def _same_rank(now: TensorInfo, before: TensorInfo) -> TensorInfo:
    """An input with the names of dimensions that it had before, which say nothing but that a size is free."""
    if now.shape is None or before.shape is None or len(now.shape) != len(before.shape):
        return now
    sizes = [
        old if not isinstance(new, int) and not isinstance(old, int) else new
        for new, old in zip(now.shape, before.shape, strict=True)
    ]
    return replace(now, shape=tuple(sizes))


def _text(info: TensorInfo) -> str:
    sizes = "x".join("?" if size is None else str(size) for size in info.shape or ())
    return f"{info.dtype} {sizes}"


def _read(metadata: Mapping[str, str]) -> list[dict[str, Any]]:
    """What the metadata says; nothing, where somebody else wrote it."""
    try:
        listed = json.loads(metadata.get(KEY, "[]"))
    except (ValueError, RecursionError):
        return []
    wanted = {"name": str, "module": str, "role": str, "required": bool}
    return [
        one
        for one in (listed if isinstance(listed, list) else [])
        if isinstance(one, dict) and all(isinstance(one.get(key), kind) for key, kind in wanted.items())
    ]


__all__ = [
    "KEY",
    "AdapterInput",
    "adapter_inputs_of",
    "adapter_names",
    "keep_adapter_inputs",
    "lost_adapter_inputs",
    "name_adapter_inputs",
]
