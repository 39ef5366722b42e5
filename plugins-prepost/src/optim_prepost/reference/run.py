"""Goes through a plan with the counterparts of its steps; a step without one is run as a graph of its own, and said."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from optim.arrays import Feeds
from optim_prepost.plans.catalog import KINDS, snake_case
from optim_prepost.plans.plan import PlannedStep, StepPlan
from optim_prepost.plans.step_classes import make_step, step_class
from optim_prepost.reference.arrays import Array

Values = dict[str, tuple[Array, ...]]
"""Outputs of the steps so far, by their label."""


def before_model(plan: StepPlan, raw: Feeds) -> Values:
    """What the steps before the model make of one raw sample."""
    values: Values = {}
    given = tuple(np.asarray(raw[port.name]) for port in plan.inputs)
    for step in plan.pre:
        given = _one(step, given, values)
        values[step.name] = given
    return values


def fed(plan: StepPlan, values: Values, raw: Feeds, joins: Sequence[tuple[str, int]]) -> Feeds:
    """What the model inside is fed.

    Args:
        plan: the plan.
        values: of :func:`before_model`.
        raw: the raw sample, which is fed as it is where no step comes first.
        joins: of every input of the model, the place among the outputs of the last step.
    """
    if not plan.pre:
        return dict(raw)
    made = values[plan.pre[-1].name]
    return {name: made[place] for name, place in joins}


def after_model(plan: StepPlan, values: Values, given: Mapping[str, Array]) -> Values:
    """What the steps after the model make of its outputs; ``values`` of the steps before goes in."""
    values = dict(values)
    made: tuple[Array, ...] = tuple(given.values())
    for step in plan.post:
        made = _one(step, made, values)
        values[step.name] = made
    return values


def without_counterpart(plan: StepPlan) -> list[str]:
    """Names of the steps that are compared with themselves only."""
    return [step.name for step in plan.steps if _counterpart(step) is None]


def _one(step: PlannedStep, before: tuple[Array, ...], values: Values) -> tuple[Array, ...]:
    given = list(before)
    for link in sorted(step.links, key=lambda link: link.input):
        found = values[link.producer][link.output]
        given[link.input : link.input + 1] = [found]
    counterpart = _counterpart(step)
    if counterpart is None:
        return _own_graph(step, given)
    wanted = _input_count(step, given)
    return tuple(counterpart(*given[:wanted], **{name: _plain(value) for name, value in step.params.items()}))


def _plain(value: Any) -> Any:
    """A parameter without the type that the step's class insists on."""
    return value["value"] if isinstance(value, dict) and value.get("type") in ("list", "tuple") else value


def _counterpart(step: PlannedStep) -> Any:
    if step.kind in KINDS:
        module = KINDS[step.kind].reference
        return getattr(importlib.import_module(module), snake_case(step.kind), None) if module else None
    return getattr(step_class(step.kind), "reference", None)


def _input_count(step: PlannedStep, given: Sequence[Array]) -> int:
    return min(len(given), len(make_step(step).input_names))


def _own_graph(step: PlannedStep, given: Sequence[Array]) -> tuple[Array, ...]:
    """The step alone, as a graph."""
    import onnx
    import onnxruntime as ort

    from optim.onnx import operator_library_path

    made = make_step(step)
    infos = [
        onnx.helper.make_tensor_value_info(
            name,
            onnx.helper.np_dtype_to_tensor_dtype(_dtype(array)),
            [f"{name}_{axis}" for axis in range(array.ndim)]
            if array.ndim and step.kind != "DrawBoundingBoxes"
            else list(array.shape),
        )
        for name, array in zip(made.input_names, given, strict=False)
    ]
    before = onnx.helper.make_graph([], "given", infos, infos)
    graph = made._create_graph_for_step(before, 18)
    domains = {node.domain for node in graph.node}
    model = onnx.helper.make_model(
        graph, ir_version=8, opset_imports=[onnx.helper.make_opsetid(d, 1 if d else 18) for d in sorted(domains | {""})]
    )
    options = ort.SessionOptions()
    options.register_custom_ops_library(operator_library_path("onnxruntime_extensions"))
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return tuple(session.run(None, dict(zip(made.input_names, given, strict=False))))


def _dtype(array: Array) -> np.dtype[Any]:
    return np.dtype(object) if array.dtype.kind in "SUO" else array.dtype
