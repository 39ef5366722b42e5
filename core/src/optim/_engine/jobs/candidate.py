"""Job: apply one pass to a model, and judge the result as far as that goes without a clock.

What a plugin hands back is not trusted: the input must be as it was, the graph must pass the checker, the backend
must open it on the target, and every output is compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from optim._engine.compare.comparison import Comparison
from optim._engine.compare.distrust import checked_model, require_fit, require_in_place, unchanged
from optim._engine.gate.budget import TaskFigure
from optim._engine.gate.drift import OutputComparison, is_rounding
from optim._engine.graphs.limits import check_limits
from optim._engine.jobs.job import Job
from optim._engine.jobs.offer import Calibration, context_for, pass_working
from optim._engine.jobs.recorded import recorded
from optim._engine.plugins.registry import load_registry
from optim.jobs.talk import Channel
from optim.model import Model
from optim.onnx.external_data import model_size_bytes
from optim.options import PassOptions, parse_options
from optim.passes import Applicable, Pass, PassResult
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Request:
    """One pass with its options on one model.

    Attributes:
        model: the parent, in the store.
        comparison: of the chain before, where the result must run too.
        lossy: whether this pass or a step before is.
        measure_task: whether the task metric is measured too.
    """

    model: Model
    name: str
    plugin: str
    options: dict[str, Any]
    comparison: Comparison
    samples: tuple[int, ...]
    store: Path
    seed: int
    lossy: bool = True
    measure_task: bool = False

    @property
    def target(self) -> Target:
        """Where the result must run."""
        return self.comparison.place.target


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of the pass, and its distance from the original; no comparisons if nothing changed.

    ``run_s`` is the fastest run of the comparison, in seconds of processor time; 0 without a run.
    """

    result: PassResult
    size_bytes: int
    comparisons: tuple[OutputComparison, ...]
    executed_on: dict[str, float]
    task: TaskFigure | None = None
    run_s: float = 0.0


JOB = Job(__name__, Request, Answer)
CHECKED = (Applicable, PassResult)


def run(request: Request, channel: Channel) -> Answer:
    """Apply, check, open, compare."""
    offered = load_registry(only=[request.plugin]).find_pass(request.name, request.target)
    pass_class = offered.over_models
    options = parse_options(pass_class, request.options)
    samples = Calibration(request.comparison.reference.feeds, request.comparison.interfaces)
    with pass_working(offered, "being applied to", request.model, pass_class.apply_limit_s):
        result = _apply(pass_class(), options, request, samples)
    result = require_fit(result, PassResult, request.name)
    channel.event("applied")
    model = checked_model(result, request.model, request.store, request.name) if result.changed else request.model
    if model.digest == request.model.digest:
        return Answer(unchanged(result, request.model), 0, (), {})
    result = replace(result, model=model, notes=(*result.notes, *samples.notes))
    backend = request.comparison.place.backend()
    check_limits(model, backend.limits(), backend.name)
    # a target that rounds more cannot show that a result is the same up to rounding
    opens = backend.open if request.lossy or request.target.exact else backend.open_reference
    with opens(model, request.target) as session:
        channel.event("opened")
        comparison = request.comparison.after(result.interface, request.model)
        comparisons, task = comparison.judge(
            session, request.samples, measure_task=request.measure_task, everything=False
        )
        if request.lossy or is_rounding(comparisons):  # what is wrong is dropped for that
            require_in_place(result, request.model, model, pass_class)
        size_bytes, run_s = model_size_bytes(model), session.least_run_s
        return Answer(result, size_bytes, comparisons, dict(session.executed_on), task, run_s)


def _apply(transformation: Pass, options: PassOptions, request: Request, samples: Calibration) -> PassResult:
    """What the pass makes of the model; nothing where it says that it cannot do anything for it."""
    applicable = require_fit(transformation.applicable(request.model, request.target), Applicable, request.name)
    if not applicable.yes:
        return PassResult(request.model, False, (applicable.reason or "its plugin gives no reason",))
    score = partial(request.comparison.score, request.model.session, request.samples)
    with context_for(request.target, request.store, samples, request.seed, score) as context:
        return recorded(context.log, lambda: transformation.apply(request.model, options, context))
