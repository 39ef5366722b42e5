"""Job: hold what the user said of passes against the model, before it is opened or run; which inputs that leaves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from optim._engine.graphs.node_lookup import unknown_nodes
from optim._engine.jobs.job import Job
from optim._engine.jobs.offer import pass_working
from optim._engine.plugins.registry import load_registry
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.model import Model, TensorInfo
from optim.options import parse_options
from optim.passes import Pass
from optim.target import Target


@dataclass(frozen=True, slots=True)
class NamedOptions:
    """A pass that must hold.

    Attributes:
        options: that the user gave; None where the pass proposes them.
        written_here: whether the user wrote them for this model, and no recipe or source of several models did.
        required: whether the target needs it, whoever named it.
    """

    name: str
    plugin: str
    options: dict[str, Any] | None
    written_here: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """The user's model, in the store, the passes to ask, and whether the user gave samples."""

    model: Model
    target: Target
    passes: tuple[NamedOptions, ...]
    data_given: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """Nothing was refused.

    Attributes:
        inputs: of the model, in the sizes that what was asked for leaves.
        fixing: names of the passes that fix sizes, in the order in which they were asked.
        notes: what may turn out to be refused, as soon as earlier passes have done their work.
    """

    inputs: tuple[TensorInfo, ...]
    notes: tuple[str, ...] = ()
    fixing: tuple[str, ...] = ()


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Ask each pass.

    Raises:
        OptimError: what the first of them refused.
    """
    model, notes, fixing = request.model, list[str](), list[str]()
    registry = load_registry(only=sorted({asked.plugin for asked in request.passes}))
    for asked in request.passes:
        offered = registry.find_pass(asked.name, request.target)
        pass_class = offered.over_models
        with pass_working(offered, "asked whether it takes", request.model):
            notes += _unknown_to_keep(asked, request.model)
            options = _options(pass_class, asked)
            if asked.options is not None:
                pass_class().refuse_for(options, model, request.target)
            if not request.data_given and options is not None:
                pass_class().refuse_without_data(options, model)
        fixes_sizes = pass_class.inputs_for is not Pass.inputs_for
        if fixes_sizes and not pass_class.recasts:
            fixing.append(asked.name)
        proposes = asked.options is None and not asked.required and pass_class.candidates is not Pass.candidates
        if options is not None and not proposes and fixes_sizes:
            with pass_working(offered, "asked for the sizes of", request.model):
                model = replace(model, inputs=_fitting(pass_class().inputs_for(options, model), model, asked.name))
    return Answer(model.inputs, tuple(notes), tuple(fixing))


def _unknown_to_keep(asked: NamedOptions, model: Model) -> list[str]:
    """Why nodes to keep are unknown: the model does not have them, and no earlier pass can have made them."""
    kept = (asked.options or {}).get("keep")
    if not asked.written_here or not isinstance(kept, list):
        return []
    return [
        f"the model has no node '{name}' that {asked.name} could keep: "
        + (f"did you mean {' or '.join(near)}?" if near else "earlier passes may rename nodes")
        for name, near in unknown_nodes(model, map(str, kept)).items()
    ]


def _options(pass_class: type[Pass], asked: NamedOptions) -> object | None:
    """What the user gave, else the defaults; None where a pass that proposes its own has no defaults."""
    if asked.options is not None:
        return parse_options(pass_class, asked.options)
    try:
        return parse_options(pass_class, {})
    except OptimError:
        return None


def _fitting(inputs: tuple[TensorInfo, ...], model: Model, name: str) -> tuple[TensorInfo, ...]:
    """What a pass says of inputs, where it is about those of the model."""
    own = [(info.name, info.dtype) for info in model.inputs]
    if [(info.name, info.dtype) for info in inputs] != own:
        raise OptimError(
            "bad-result",
            f"inputs_for of {name} gives other inputs than the model's",
            f"the model's are {', '.join(info.name for info in model.inputs)}",
            "this is an issue of the plugin: only sizes may differ",
        )
    return inputs
