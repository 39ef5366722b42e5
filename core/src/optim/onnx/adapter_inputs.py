"""Which inputs of a graph take weights of adapters, as its metadata says.

    metadata_props["optim.adapters"] = [{"name": "q.lora_A", "module": "layers.0.q", "role": "down", "required": false}]

An adapter input is an input of the graph. One that is not required is an initializer as well, whose value is the
default: a run may replace it, so it is no constant, and nothing may be computed from it ahead of time.

One that says ``supplied_by`` becomes an initializer without a value when the model is delivered: its tensor points to a
file that is never there, so that the model opens only where its adapter is supplied with the session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace

import onnx
import onnx_ir as ir

from optim.jobs.wire import from_wire
from optim.model import UNKNOWN_DTYPE, AdapterInput, TensorInfo, dtype_name

KEY = "optim.adapters"
"""Of the metadata."""

SUPPLIED = "supplied-with-the-session"
"""The file that arrays without a value point to; no file is called so."""


def adapter_inputs_of(model: onnx.ModelProto) -> tuple[AdapterInput, ...]:
    """The adapter inputs of a graph, in the order of its inputs; what only its metadata names is left out."""
    known = {entry.key: entry.value for entry in model.metadata_props}
    said = {one.info.name: one for one in _read(known)}
    infos = [TensorInfo.of(value) for value in model.graph.input if value.name in said]
    infos += [
        TensorInfo(tensor.name, dtype_name(tensor.data_type), tuple(tensor.dims))
        for tensor in (model.graph.initializer if said else ())
        if tensor.name in said
        and any((entry.key, entry.value) == ("location", SUPPLIED) for entry in tensor.external_data)
    ]
    return tuple(replace(said[info.name], info=info) for info in infos)


def leave_to_sessions(graph: ir.Model) -> None:
    """Take the arrays that sessions supply out of a graph that is delivered; ``graph`` is changed in place."""
    supplied = {one.info.name for one in _read(graph.metadata_props) if one.supplied_by}
    for value in [value for value in graph.graph.inputs if value.name in supplied]:
        tensor = value.const_value
        if tensor is None or value.name is None:
            continue  # a graph may say of itself what is not so
        graph.graph.inputs.remove(value)
        value.const_value = ir.ExternalTensor(
            SUPPLIED, 0, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape.numpy()), name=value.name
        )


def adapter_names(graph: ir.Model) -> frozenset[str]:
    """Returns the names of the adapter inputs of a graph."""
    return frozenset(one.info.name for one in _read(graph.metadata_props))


def name_adapter_inputs(graph: ir.Model, inputs: Iterable[AdapterInput]) -> None:
    """Writes into the metadata of a graph which of its inputs take weights of adapters; removes it if none does."""
    said = []
    for one in inputs:
        entry = {"name": one.info.name, **asdict(one)}
        left_out = {"info", *(key for key in ("details", "supplied_by") if not entry[key])}
        said.append({key: part for key, part in entry.items() if key not in left_out})
    graph.metadata_props.pop(KEY, None)
    if said:
        graph.metadata_props[KEY] = json.dumps(said)


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
        if _unnamed(now) != _unnamed(one):
            return f"adapter input '{name}' changed from {_text(one.info)} to {_text(now.info)}"
        if not one.required and name in without_default:
            return f"adapter input '{name}' lost its default: the model does not run without an adapter any more"
    return ""


def _unnamed(one: AdapterInput) -> AdapterInput:
    """An input without the names of its dimensions, which say nothing but that a size is free."""
    sizes = one.info.shape and tuple(size if isinstance(size, int) else None for size in one.info.shape)
    return replace(one, info=replace(one.info, shape=sizes))


def _text(info: TensorInfo) -> str:
    sizes = "x".join("?" if size is None else str(size) for size in info.shape or ())
    return f"{info.dtype} {sizes}"


def _read(metadata: Mapping[str, str]) -> list[AdapterInput]:
    """What the metadata says, of each input no more than its name; without entries that somebody else wrote."""
    found: list[AdapterInput] = []
    with suppress(ValueError, RecursionError):
        listed = json.loads(metadata.get(KEY, "[]"))
        for one in listed if isinstance(listed, list) else []:
            with suppress(ValueError, TypeError, KeyError):
                info = {"name": one["name"], "dtype": UNKNOWN_DTYPE, "shape": None}
                found.append(from_wire(AdapterInput, {**one, "info": info}))
    return found
