"""Puts the steps of a plan around a model.

Before::

    pixel_values -> [model] -> logits

After, with steps A, B before and C after::

    image -> A -> B -> pixel_values -> [model] -> logits -> C -> scores

onnxruntime-extensions' PrePostProcessor builds the steps around a *stand-in*: one node with the inputs and outputs of
the model. The model's own nodes then take its place, untouched: names and weights stay, and no weight is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

from optim import ExitStatus, OptimError
from optim_prepost import PACKAGE
from optim_prepost.compose.fitting import check_join, check_links, check_ports, step_failed, watch
from optim_prepost.plans.plan import PlannedStep, PlanResult, Port, StepPlan
from optim_prepost.plans.step_classes import make_step

if TYPE_CHECKING:
    from onnxruntime_extensions.tools.pre_post_processing import Step

DOMAIN, CONTRIB = "com.microsoft.extensions", "ai.onnx.contrib"
"""Domains of onnxruntime-extensions' operators."""

PREFIX = "prepost_"
METADATA = "optim.prepost"
_STAND_IN = "StandIn"
_LEAST_OPSET = 16


@dataclass(frozen=True, slots=True)
class Composed:
    """A model with steps around it.

    Attributes:
        model: weights that were external still are.
        joins: of every input of the model inside, the place among the outputs of the last step before it.
        results: of every output, its name and where it comes from: a step and the place among its outputs, or the
            model inside (step empty) and the place among its own.
        nodes: that each step brought.
    """

    model: onnx.ModelProto
    joins: tuple[tuple[str, int], ...]
    results: tuple[tuple[str, str, int], ...]
    nodes: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Around:
    """The steps around a stand-in.

    Attributes:
        graph: as PrePostProcessor made it.
        steps: by label, each with its outputs' names in the graph.
        joins: as in :class:`Composed`.
    """

    graph: onnx.GraphProto
    steps: dict[str, Step]
    joins: tuple[tuple[str, int], ...]

    @property
    def stand_in(self) -> onnx.NodeProto:
        """The node in the place of the model."""
        found: onnx.NodeProto = next(node for node in self.graph.node if node.op_type == _STAND_IN)
        return found


def compose(plan: StepPlan, model: onnx.ModelProto) -> Composed:
    """Put the steps of ``plan`` around ``model``.

    Args:
        plan: names every step.
        model: its opset is at least the plan's; changed in place.

    Raises:
        OptimError[already-appended]: the model has such steps.
        OptimError[step-failed]: a step does not fit to what comes before it, or raised.
        OptimError[unknown-step]: the plan names a step that there is not.
        OptimError[bad-step]: a step cannot be made.
    """
    if any(node.name.startswith(PREFIX) for node in model.graph.node):
        raise OptimError(
            "already-appended",
            "the model has pre- or post-processing steps already",
            f"it has nodes whose names begin with {PREFIX}",
            "give the model without them",
            PACKAGE,
            ExitStatus.NOT_HELD,
        )
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in initializers]
    defaults = [value for value in model.graph.input if value.name in initializers]
    around = _build(plan, inputs, model.graph.output, _standard_opset(model))
    counts = _name_nodes(around)
    names, results = _final_names(plan, around, [value.name for value in model.graph.output])
    _rename(model.graph, _clashes(model.graph, plan, around, names))
    _connect(around, inputs, model.graph.output, names)
    outputs = [next(value for value in around.graph.output if value.name == name) for name, _, _ in results]
    place = list(around.graph.node).index(around.stand_in)
    before, after = around.graph.node[:place], around.graph.node[place + 1 :]
    nodes = _needed([*before, *model.graph.node, *after], [output.name for output in outputs])
    del model.graph.node[:], model.graph.input[:], model.graph.output[:]
    model.graph.node.extend(nodes)
    model.graph.input.extend([*around.graph.input, *defaults])
    model.graph.output.extend(outputs)
    _import_domains(model)
    return Composed(model, around.joins, results, counts)


def _standard_opset(model: onnx.ModelProto) -> int:
    """The version of the standard operators that a model imports."""
    return max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)


def _build(
    plan: StepPlan, inputs: Sequence[onnx.ValueInfoProto], outputs: Sequence[onnx.ValueInfoProto], opset: int
) -> _Around:
    """The steps around a stand-in whose inputs and outputs are like the model's, under names of their own."""
    from onnxruntime_extensions.tools.pre_post_processing import IoMapEntry, PrePostProcessor
    from onnxruntime_extensions.tools.pre_post_processing.utils import create_named_value

    taken = [_like(value, f"{PREFIX}taken_{place}") for place, value in enumerate(inputs)]
    given = [_like(value, f"{PREFIX}given_{place}") for place, value in enumerate(outputs)]
    stand_in = onnx.helper.make_node(
        _STAND_IN, [value.name for value in taken], [value.name for value in given], domain=DOMAIN, name=_STAND_IN
    )
    imports = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid(DOMAIN, 1)]
    model = onnx.helper.make_model(onnx.helper.make_graph([stand_in], "model", taken, given), opset_imports=imports)
    ports = [create_named_value(port.name, _element_type(port), list(port.shape)) for port in plan.inputs]
    pipeline = PrePostProcessor(ports, max(opset, _LEAST_OPSET))
    checker = pipeline._custom_op_checker_context
    checker.opset_imports = {**checker.opset_imports, CONTRIB: 1}
    steps: dict[str, Step] = {}
    gives: dict[str, list[onnx.ValueInfoProto]] = {}
    names = dict(zip(stand_in.output, (value.name for value in outputs), strict=True))

    def made(planned: PlannedStep) -> tuple[Step, list[IoMapEntry]]:
        if planned.name in steps:
            raise step_failed(planned.name, "two steps have this name", "give one of them another: name")
        step = make_step(planned)
        check_links(step, planned, steps)
        gives[planned.name] = watch(step, planned.kind, names)
        step._prefix = f"{PREFIX}{len(steps)}_"
        steps[planned.name] = step
        return step, [IoMapEntry(link.producer, link.output, link.input) for link in planned.links]

    joins: list[tuple[int, int]] = []
    try:
        if plan.pre:
            pipeline.add_pre_processing([made(planned) for planned in plan.pre])
            check_ports(pipeline.pre_processors[0], plan.inputs)
            joins = _joins(pipeline.pre_processors[-1], inputs)
            last = pipeline.pre_processors[-1]
            pipeline._pre_processing_joins = [(last, place, taken[number].name) for number, place in joins]
        if plan.post:
            pipeline.add_post_processing([made(planned) for planned in plan.post])
        around = pipeline.run(model).graph
    except OptimError:
        raise
    except Exception as error:
        raise step_failed("list", f"{type(error).__name__}: {error}") from error
    if joins:
        check_join(last, [gives[last.name][place] for _, place in joins], [inputs[number] for number, _ in joins])
    return _Around(around, steps, tuple((inputs[number].name, place) for number, place in joins))


def _joins(last: Step, inputs: Sequence[onnx.ValueInfoProto]) -> list[tuple[int, int]]:
    """Of every input of the model, the place among the last step's outputs: by name where all match, else in order."""
    by_name = {name: place for place, name in enumerate(last.output_names)}
    if all(value.name in by_name for value in inputs):
        return [(number, by_name[value.name]) for number, value in enumerate(inputs)]
    if len(inputs) > len(last.output_names):
        wanted = ", ".join(value.name for value in inputs)
        raise step_failed(last.name, f"the model takes {wanted}; the last step gives {', '.join(last.output_names)}")
    return [(number, number) for number in range(len(inputs))]


def _name_nodes(around: _Around) -> dict[str, int]:
    """Call every node after its step; how many each step brought."""
    counts = dict.fromkeys(around.steps, 0)
    for node in around.graph.node:
        for label, step in around.steps.items():
            if any(name.startswith(step._prefix) for name in node.output):
                node.name = f"{PREFIX}{label}_{counts[label]}"
                counts[label] += 1
    return counts


def _final_names(
    plan: StepPlan, around: _Around, own: Sequence[str]
) -> tuple[dict[str, str], tuple[tuple[str, str, int], ...]]:
    """The outputs that the plan wants, or all that no step takes: new names by old, and where each comes from."""
    sources = {name: ("", place) for place, name in enumerate(around.stand_in.output)}
    sources |= {
        name: (label, place) for label, step in around.steps.items() for place, name in enumerate(step.output_names)
    }
    free = [output.name for output in around.graph.output if output.name in sources]
    names: dict[str, str] = {}
    if plan.results:
        names = {_output_of(free, sources, wanted): wanted.name for wanted in plan.results}
    else:
        taken = {value.name for value in around.graph.input} if plan.pre else set()
        for name in free:
            label, place = sources[name]
            plain = name.removeprefix(PREFIX).partition("_")[2] if label else own[place]
            names[name] = _unlike(plain, taken)
            taken.add(names[name])
    return names, tuple((new, *sources[old]) for old, new in names.items())


def _output_of(free: Sequence[str], sources: dict[str, tuple[str, int]], wanted: PlanResult) -> str:
    found = next((name for name in free if sources[name] == (wanted.producer, wanted.output)), None)
    if found is None:
        raise step_failed(wanted.producer or "model", f"its output {wanted.output} is no result: a step takes it")
    return found


def _unlike(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        found = f"{name}_out{number if number > 1 else ''}"
        number += 1
    return found


def _clashes(graph: onnx.GraphProto, plan: StepPlan, around: _Around, names: dict[str, str]) -> dict[str, str]:
    """New names for values of the model that are called like an input or a result of the whole."""
    outputs = dict(zip(around.stand_in.output, (value.name for value in graph.output), strict=True))
    through = {outputs[old]: new for old, new in names.items() if old in outputs}
    wanted = set(names.values()) - set(through.values())
    wanted |= {port.name for port in plan.inputs} if plan.pre else set()
    values = {name for node in graph.node for name in (*node.input, *node.output)}
    values |= {value.name for value in (*graph.input, *graph.output, *graph.initializer)}
    clashes = {name: f"{PREFIX}model_{name}" for name in sorted(wanted & values)}
    return clashes | {old: new for old, new in through.items() if old != new}


def _connect(
    around: _Around,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    names: dict[str, str],
) -> None:
    """Give the values at both sides of the stand-in the names that the model has for them, and results their own."""
    graph, stand_in = around.graph, around.stand_in
    sources = list(stand_in.input)
    renamed = dict(names)
    fed = {value.name for value in graph.input} if around.joins else set()
    for place, (source, value) in enumerate(zip(sources, inputs, strict=True)):
        if sources.count(source) == 1 and source not in fed and source not in names:
            renamed[source] = value.name
        else:
            copy = onnx.helper.make_node("Identity", [source], [value.name], f"{PREFIX}input_{place}")
            graph.node.insert(list(graph.node).index(around.stand_in), copy)
    for source, value in zip(stand_in.output, outputs, strict=True):
        renamed.setdefault(source, value.name)
    _rename(graph, renamed)


def _rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    """Call values otherwise, in subgraphs too."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                _rename(attribute.g, names)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        value.name = names.get(value.name, value.name)


def _needed(nodes: Iterable[onnx.NodeProto], outputs: Sequence[str]) -> list[onnx.NodeProto]:
    """Nodes of steps that nothing reads are left out; the model's own stay as they are."""
    wanted, kept = set(outputs), []
    for node in reversed(list(nodes)):
        if not node.name.startswith(PREFIX) or wanted.intersection(node.output):
            kept.append(node)
            wanted.update(node.input, _read_inside(node))
    return kept[::-1]


def _read_inside(node: onnx.NodeProto) -> set[str]:
    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return {name for graph in graphs for inner in graph.node for name in (*inner.input, *_read_inside(inner))}


def _import_domains(model: onnx.ModelProto) -> None:
    """Domains of the extensions, where a node really uses them and only there."""
    used = {node.domain for node in model.graph.node} & {DOMAIN, CONTRIB}
    kept = [entry for entry in model.opset_import if entry.domain not in (DOMAIN, CONTRIB)]
    del model.opset_import[:]
    model.opset_import.extend([*kept, *(onnx.helper.make_opsetid(domain, 1) for domain in sorted(used))])


def _like(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    made = onnx.ValueInfoProto()
    made.CopyFrom(value)
    made.name = name
    return made


def _element_type(port: Port) -> int:
    try:
        return int(onnx.TensorProto.DataType.Value(port.dtype.upper()))
    except ValueError:
        raise step_failed("list", f"input '{port.name}' has the unknown type '{port.dtype}'") from None
