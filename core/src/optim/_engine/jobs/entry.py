"""Job: apply passes to the original before it is first opened, for a device that does not take it as it is.

    x [batch, 3, 224, 224] -> ...        the user's model
    x [1, 3, 224, 224] -> ...            what is opened in its place, run for the reference, and timed against

These are passes that fix sizes (:meth:`optim.Pass.inputs_for`), which the target requires or the user named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.compare.distrust import checked_model, require_fit
from optim._engine.feeds.sources import load_feeds
from optim._engine.feeds.synthesize import synthesize_feeds
from optim._engine.jobs.job import Job
from optim._engine.jobs.offer import Calibration, PassQuestion, context_for, pass_working, proposed_options
from optim._engine.plugins.registry import load_registry
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.model import Model, TensorInfo
from optim.options import parse_options
from optim.passes import Pass, PassResult
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Request:
    """The original, the passes in their order, and what their samples are made of.

    Attributes:
        inputs: its inputs, in the sizes that samples have.
        passes: in the order of a run.
        data: what the user gave after ``--data``; None: samples are made up.
    """

    model: Model
    inputs: tuple[TensorInfo, ...]
    target: Target
    passes: tuple[PassQuestion, ...]
    data: str | None
    feeds: Path
    store: Path
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The model that is opened in place of the original."""

    model: Model


JOB = Job(__name__, Request, Answer)
CHECKED = (PassResult,)


def run(request: Request, channel: Channel) -> Answer:
    """Apply each.

    Raises:
        OptimError: what one of them refuses, or does against the contract of passes. Also entry-recasts.
    """
    fed = replace(request.model, inputs=request.inputs)
    if request.data is None:
        synthesize_feeds(fed, request.feeds, request.seed)
    else:
        load_feeds(request.data, fed, request.feeds, request.seed)
    registry, model = load_registry(only=sorted({one.plugin for one in request.passes})), request.model
    for one in request.passes:
        offered = registry.find_pass(one.name, request.target)
        transformation = offered.over_models()
        with pass_working(offered, "being applied to", model, transformation.apply_limit_s):
            result = _applied(transformation, one, model, request)
        if result is None or not result.changed:
            continue
        if result.interface is not None and (result.interface.feeds or result.interface.outputs):
            raise OptimError(
                "entry-recasts",
                f"{one.name} fixes sizes, and changes inputs or outputs",
                "the original is opened with it, and must take the same samples then",
                "this is an issue of its plugin: do that in a pass of its own",
                offered.plugin.release,
            )
        model = checked_model(result, model, request.store, one.name)
    return Answer(model)


def _applied(transformation: Pass, one: PassQuestion, model: Model, request: Request) -> PassResult | None:
    """What a pass makes of a model; None where it does not apply, or proposes nothing."""
    if not transformation.applicable(model, request.target).yes:
        return None
    with context_for(request.target, request.store, Calibration(request.feeds), request.seed) as context:
        if one.options is not None:
            options = parse_options(type(transformation), one.options)
        else:
            proposed = proposed_options(transformation, model, request.target, context)
            if not proposed:
                return None
            options = proposed[0]
        return require_fit(transformation.apply(model, options, context), PassResult, one.name)
