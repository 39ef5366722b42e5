"""Holds what a run made against what its source computed: the optimized model, not the graph that was exported.

Every step of every trial is one run on the source's own feeds. The state of a decoder is what the source returned in
the step before, so that drift means the same here as on the samples of a run: one run, the same feeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.place import mapped_feeds, mapped_outputs
from optim._engine.gate.drift import NO_DRIFT, Drift, OutputComparison, merge_samples, worst_drift
from optim._engine.sources.compare import as_taken, compare_step, place_of, variations_of_source
from optim._engine.sources.evidence import RecordedComponent, RecordedStep, RecordedTrial, steps_of
from optim.arrays import Array, Feeds
from optim.backend import Session
from optim.decoders.conventions import file_shares_past, why_not_taken
from optim.model import Model
from optim.passes import Interface


@dataclass(frozen=True, slots=True)
class SourceDrift:
    """How far a result is from the source.

    Attributes:
        drift: of the worst output over all steps of all trials; without a trial it says nothing.
        trials: names of those that it was held against.
        skipped: those that it does not take, with the reason.
        samples: runs compared.
        output: the worst one.
        place: the trial and the step that it is worst on.
        problem: what makes it incomparable or infinitely far, or empty.
        limit: what it was held to; infinite where nothing bounds the drift.
        note: what a reader must know of it, or empty.
    """

    drift: Drift = NO_DRIFT
    trials: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    samples: int = 0
    output: str = ""
    place: str = ""
    problem: str = ""
    limit: float = math.inf
    note: str = ""


def compare_result(
    session: Session,
    model: Model,
    original: Model,
    folder: Path,
    component: RecordedComponent,
    interfaces: Sequence[Interface],
) -> SourceDrift:
    """Run a result on every trial that it takes, and compare every output with the source's.

    Args:
        session: of the result.
        model: the result.
        original: the exported graph, whose feeds the interfaces begin with.
        folder: with the evidence.
        component: as recorded.
        interfaces: of the steps that changed inputs or outputs.
    """
    worst: dict[str, OutputComparison] = {}
    trials, skipped, samples = [], [], 0
    in_place = file_shares_past(model.path)
    furthest, output, place = -1.0, "", ""
    variations = variations_of_source(folder, component)
    for trial in component.trials:
        refusal = ""
        for index, (feeds, step) in enumerate(_runs(folder, component, trial)):
            given = mapped_feeds(as_taken(feeds, original.inputs), interfaces)
            if refusal := _refusal(model, given) or (why_not_taken(given) if in_place else ""):
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


def _runs(folder: Path, component: RecordedComponent, trial: RecordedTrial) -> Iterator[tuple[Feeds, RecordedStep]]:
    """Each step with all that it is fed."""
    carried: Mapping[str, Array] = {}
    for step in steps_of(folder, component, trial):
        yield {**step.feeds, **carried}, step
        carried = {taker: step.outputs[giver] for giver, taker in component.state.items()}


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
