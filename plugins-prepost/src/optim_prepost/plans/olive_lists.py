"""Plans from explicit lists, written as Olive's AppendPrePostProcessingOps took them.

A step is ``{name: parameters}`` or ``{name: {"params": parameters, "io_map": [[producer, output, input], ...]}}``. A
parameter may be ``{"type": "__model_input__", "input_index": i, "dim_index": d}``, or ``__model_output__`` with
``output_index``: a size of the model. A list is a tuple unless ``{"type": "list", "value": [...]}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from optim import OptimError, TensorInfo
from optim_prepost import PACKAGE
from optim_prepost.plans.append_options import AppendOptions
from optim_prepost.plans.plan import Link, PlannedStep, Port, StepPlan


def explicit_plan(options: AppendOptions, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> StepPlan:
    """The plan of lists ``pre`` and ``post``; sizes of the model are put in.

    Raises:
        OptimError[bad-step-list]: an entry is not written so, or a size is not known.
    """
    given = options.tool_command_args if isinstance(options.tool_command_args, tuple) else ()
    ports = tuple(Port(one.name, one.data_type, one.shape) for one in given)
    model = {"__model_input__": ("input_index", list(inputs)), "__model_output__": ("output_index", list(outputs))}
    steps = _labelled([_step(entry, model) for entry in (*(options.pre or ()), *(options.post or ()))])
    pre, post = tuple(steps[: len(options.pre or ())]), tuple(steps[len(options.pre or ()) :])
    task = {"input": "bytes" if pre and pre[0].kind == "ConvertImageToBGR" else ""}
    return StepPlan(ports or _same(inputs), pre, post, (), options.target_opset, "", task, options.samples or "")


def _labelled(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    """Steps of one kind without a name of their own are numbered; links that name the kind mean the first."""
    found: list[PlannedStep] = []
    for step in steps:
        before = sum(step.kind == other.kind and not other.params.get("name") for other in found)
        own = step.params.get("name") or not before
        found.append(step if own else replace(step, label=f"{step.name}_{before + 1}"))
    return found


def step_kinds(options: AppendOptions) -> list[str]:
    """Names of the steps in both lists, before any model is known."""
    return [_step(entry, None).kind for entry in (*(options.pre or ()), *(options.post or ()))]


def _same(inputs: Sequence[TensorInfo]) -> tuple[Port, ...]:
    """The model's own inputs, where nothing comes before it."""
    names = {"float32": "float", "float64": "double", "str": "string"}
    return tuple(
        Port(
            one.name,
            names.get(one.dtype, one.dtype),
            tuple(size if size is not None else f"{one.name}_{place}" for place, size in enumerate(one.shape or ())),
        )
        for one in inputs
    )


def _step(entry: Mapping[str, Any], model: Mapping[str, tuple[str, list[TensorInfo]]] | None) -> PlannedStep:
    if len(entry) != 1:
        raise _bad(f"{dict(entry)!r} is not one step with its parameters")
    kind, written = next(iter(entry.items()))
    if not isinstance(written, Mapping):
        raise _bad(f"the parameters of {kind} are {written!r}, not names and values")
    params = written.get("params", written)
    if not isinstance(params, Mapping):
        raise _bad(f"the parameters of {kind} are {params!r}, not names and values")
    links = tuple(_link(kind, one) for one in written.get("io_map", ()) or ())
    values = {name: _value(value, model) for name, value in params.items() if name != "io_map"}
    return PlannedStep(kind, values, str(values.get("name") or ""), links)


def _link(kind: str, written: Any) -> Link:
    if not isinstance(written, (list, tuple)) or len(written) != 3:
        raise _bad(f"io_map of {kind} has {written!r}, not [step, its output, input of {kind}]")
    producer, output, taken = written
    return Link(str(producer), int(output), int(taken))


def _value(value: Any, model: Mapping[str, tuple[str, list[TensorInfo]]] | None) -> Any:
    if isinstance(value, Mapping):
        kind = value.get("type")
        if kind in ("__model_input__", "__model_output__"):
            return 1 if model is None else _size(value, *model[str(kind)])
        return {name: _value(one, model) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(one, model) for one in value]
    return value


def _size(written: Mapping[str, Any], key: str, infos: list[TensorInfo]) -> int:
    number, axis = written.get(key), written.get("dim_index")
    if number is None or axis is None:
        raise _bad(f"{dict(written)!r} needs {key} and dim_index")
    if not -len(infos) <= number < len(infos):
        raise _bad(f"{key} {number} is out of range: the model has {len(infos)}")
    shape = infos[number].shape or ()
    if not -len(shape) <= axis < len(shape):
        raise _bad(f"dim_index {axis} is out of range: '{infos[number].name}' has {len(shape)} dimensions")
    size = shape[axis]
    if not isinstance(size, int):
        raise _bad(f"dimension {axis} of '{infos[number].name}' is open ({size}); write its size in the step")
    return size


def _bad(cause: str) -> OptimError:
    return OptimError.usage(
        "bad-step-list",
        "a list of steps cannot be read",
        cause,
        'write each step as {"Resize": {"resize_to": 256}}, see docs/prepost.md',
        PACKAGE,
    )
