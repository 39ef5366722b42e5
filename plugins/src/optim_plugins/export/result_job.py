"""Job: compare a result of a run with what its source computed, on every trial that the result takes."""

from __future__ import annotations

from optim.arrays import Feeds
from optim.engine.export import (
    Job,
    OutputComparison,
    SourceDrift,
    SourceQuestion,
    file_shares_past,
    mapped_feeds,
    mapped_outputs,
    merge_samples,
    why_not_taken,
    worst_drift,
)
from optim.jobs import Channel
from optim.model import Model
from optim_plugins.export.evidence import (
    as_taken,
    compare_step,
    place_of,
    read_evidence,
    steps_of,
    variations_of_source,
)

Request = SourceQuestion

JOB = Job(__name__, Request, SourceDrift, here=True)


def run(request: Request, channel: Channel) -> SourceDrift:
    """Open the result as it will be opened, and compare every output on every trial that it takes."""
    component, interfaces = read_evidence(request.evidence).component(request.component), request.interfaces
    worst: dict[str, OutputComparison] = {}
    trials, skipped, samples = [], [], 0
    in_place = file_shares_past(request.model.path)
    furthest, output, place = -1.0, "", ""
    variations = variations_of_source(request.evidence, component)
    with request.place.backend().open(request.model, request.place.target) as session:
        for trial in component.trials:
            refusal = ""
            for index, step in enumerate(steps_of(request.evidence, component, trial)):
                taken = as_taken({**step.feeds, **step.state}, request.original.inputs)
                given = mapped_feeds(taken, interfaces)
                if refusal := _refusal(request.model, given) or (why_not_taken(given) if in_place else ""):
                    break
                compared = compare_step(step, mapped_outputs(session.run(given), interfaces), variations, cast=True)
                samples += 1
                for comparison in compared:
                    if comparison.relative_error > furthest:
                        furthest, output, place = comparison.relative_error, comparison.name, place_of(trial, index)
                worst = merge_samples(worst, compared)
            if refusal:
                skipped.append(f"{trial.name}: {refusal}")
            else:
                trials.append(trial.name)
    problem = next((found.problem for found in worst.values() if found.name == output), "")
    return SourceDrift(worst_drift(worst.values()), tuple(trials), tuple(skipped), samples, output, place, problem)


def _refusal(model: Model, feeds: Feeds) -> str:
    """Returns which size of an input is fixed to another than these feeds have; empty where all fit."""
    for info in model.inputs:
        shape = feeds[info.name].shape if info.name in feeds else None
        if shape is None or info.shape is None:
            continue
        fixed = [size if isinstance(size, int) else own for size, own in zip(info.shape, shape, strict=False)]
        if len(info.shape) != len(shape) or tuple(fixed) != shape:
            return f"input '{info.name}' takes {list(info.shape)}, and this is {list(shape)}"
    return ""
