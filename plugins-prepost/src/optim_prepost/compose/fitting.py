"""Whether what a step gives fits what takes it: the next step, or the model. A misfit names the step.

PrePostProcessor joins graphs by the names of their values only; types and shapes that do not fit would come out when
the model is opened, with a node of the model named in place of the step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import onnx

from optim import ExitStatus, OptimError
from optim_prepost import PACKAGE
from optim_prepost.plans.catalog import KINDS
from optim_prepost.plans.plan import PlannedStep, Port

if TYPE_CHECKING:
    from onnxruntime_extensions.tools.pre_post_processing import Step

_INNER = re.compile(r"^prepost_\d+_")
"""Put before the names of values that a step makes."""

_DOMAINS = ("com.microsoft.extensions", "ai.onnx.contrib")


def watch(step: Step, kind: str, names: Mapping[str, str]) -> list[onnx.ValueInfoProto]:
    """Make a step check what it is given and what it makes.

    Args:
        step: its graph is made later, by PrePostProcessor; then OptimError[step-failed] is raised.
        kind: of the step; those of the catalog are trusted to declare their outputs well enough.
        names: what values are called in a message, by their names while the graph is put together.

    Returns:
        Empty until then; what the step gives, in the order of its outputs.
    """
    create, gives = step._create_graph_for_step, list[onnx.ValueInfoProto]()

    def create_graph_for_step(graph: onnx.GraphProto, onnx_opset: int) -> onnx.GraphProto:
        there = {value.name: value for value in graph.output}
        given = [there[name] for name in step.input_names if name in there]
        if len(given) < len(step.input_names):
            absent = next(name for name in step.input_names if name not in there)
            before = ", ".join(_said(value, names) for value in there.values())
            raise step_failed(step.name, f"its input '{absent}' is given nothing; before it there is {before}")
        try:
            made: onnx.GraphProto = create(graph, onnx_opset)
            onnx.checker.check_model(onnx.helper.make_model(made, opset_imports=_imports(onnx_opset)))
        except Exception as error:
            why = f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} in its graph"
            raise step_failed(step.name, f"given {', '.join(_said(value, names) for value in given)}: {why}") from error
        _check_inputs(step, made, there, names)
        _check_outputs(step, made, onnx_opset, thorough=kind not in KINDS)
        for name in step.output_names:
            gives.append(onnx.ValueInfoProto())
            gives[-1].CopyFrom(next(value for value in made.output if value.name == name))
        return made

    step._create_graph_for_step = create_graph_for_step
    return gives


def check_links(step: Step, planned: PlannedStep, earlier: Mapping[str, Step]) -> None:
    """Links of a step to steps before it, and their places.

    Raises:
        OptimError[step-failed]: there is no such step or place.
    """
    last = list(earlier)[-1] if earlier else ""
    for link in planned.links:
        producer = link.producer or last
        if producer not in earlier:
            there = ", ".join(earlier) or "none"
            raise step_failed(planned.name, f"its io_map names the step '{producer}'; before it there are: {there}")
        for end, place, ends in (
            (f"output of {producer}", link.output, earlier[producer].output_names),
            (f"input of {planned.name}", link.input, step.input_names),
        ):
            if not 0 <= place < len(ends):
                raise step_failed(planned.name, f"its io_map names {end} number {place}, and there are {len(ends)}")


def check_ports(first: Step, ports: Sequence[Port]) -> None:
    """The inputs of the whole go to the first step, in order.

    Raises:
        OptimError[step-failed]: there are more than it takes.
    """
    if len(ports) > len(first.input_names):
        given = ", ".join(port.name for port in ports)
        raise step_failed(first.name, f"it takes {', '.join(first.input_names)}; tool_command_args has {given}")


def check_join(step: Step, gives: Sequence[onnx.ValueInfoProto], takes: Sequence[onnx.ValueInfoProto]) -> None:
    """What the last step before the model gives, and the inputs of the model that it goes to, in pairs.

    Raises:
        OptimError[step-failed]: a type, a rank or a size differs.
    """
    for value, wanted in zip(gives, takes, strict=True):
        if differ(value, wanted):
            taken = f"the model takes {wanted.name} {typed(wanted)}"
            raise step_failed(step.name, f"it gives {value.name} {typed(value)}; {taken}")


def differ(one: onnx.ValueInfoProto, other: onnx.ValueInfoProto) -> bool:
    """Whether a tensor cannot be both: another element type, another rank, or another size where both are known."""
    left, right = one.type.tensor_type, other.type.tensor_type
    if left.elem_type and right.elem_type and left.elem_type != right.elem_type:
        return True
    if not (left.HasField("shape") and right.HasField("shape")):
        return False
    if len(left.shape.dim) != len(right.shape.dim):
        return True
    pairs = zip(left.shape.dim, right.shape.dim, strict=True)
    return any(a.dim_value != b.dim_value for a, b in pairs if a.HasField("dim_value") and b.HasField("dim_value"))


def typed(value: onnx.ValueInfoProto) -> str:
    """Element type and shape, ``uint8[32, 40, 3]``; a size that is open and has no name is ``?``."""
    tensor = value.type.tensor_type
    sizes = [str(size.dim_value) if size.HasField("dim_value") else size.dim_param or "?" for size in tensor.shape.dim]
    return f"{onnx.TensorProto.DataType.Name(tensor.elem_type).lower()}[{', '.join(sizes)}]"


def step_failed(step: str, cause: str, fix: str = "") -> OptimError:
    """A step that does not fit, and what does not."""
    return OptimError(
        "step-failed",
        f"step {step} does not fit",
        cause,
        fix or "optim inspect shows the model's inputs and outputs; optim passes show prepost.append the options",
        PACKAGE,
        ExitStatus.NOT_HELD,
    )


def _check_inputs(
    step: Step, made: onnx.GraphProto, there: Mapping[str, onnx.ValueInfoProto], names: Mapping[str, str]
) -> None:
    for value in made.input:
        if value.name not in there:
            raise step_failed(step.name, f"its graph takes '{value.name}', which nothing before it gives")
        if differ(value, there[value.name]):
            raise step_failed(step.name, f"it takes {typed(value)}; it is given {_said(there[value.name], names)}")


def _check_outputs(step: Step, made: onnx.GraphProto, opset: int, *, thorough: bool) -> None:
    declared = {value.name: value for value in made.output}
    if absent := [name for name in step.output_names if name not in declared]:
        raise step_failed(step.name, f"it names the output '{absent[0]}'; its graph gives {', '.join(declared)}")
    if not thorough:
        return
    untyped = onnx.GraphProto()
    untyped.CopyFrom(made)
    del untyped.output[:]
    untyped.output.extend(onnx.ValueInfoProto(name=name) for name in declared)
    model = onnx.helper.make_model(untyped, opset_imports=_imports(opset))
    try:
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True).graph
    except onnx.shape_inference.InferenceError as error:
        raise step_failed(step.name, f"its graph cannot be computed: {' '.join(str(error).split())[-300:]}") from error
    for value in inferred.output:
        if differ(value, declared[value.name]):
            said = f"its graph declares {value.name} as {typed(declared[value.name])}"
            raise step_failed(step.name, f"{said}, and it is {typed(value)}")


def _imports(opset: int) -> list[onnx.OperatorSetIdProto]:
    return [onnx.helper.make_opsetid("", opset), *(onnx.helper.make_opsetid(domain, 1) for domain in _DOMAINS)]


def _said(value: onnx.ValueInfoProto, names: Mapping[str, str]) -> str:
    plain = _INNER.sub("", value.name)
    return f"{names.get(value.name, plain)} {typed(value)}"
