"""What a source itself computes on its trials: recorded by the pipeline that exports it, compared with graphs.

A folder for each component, one sample for each step: ``feed/<input>``, ``valid/<output>`` and ``out/<output>``. From
the second step of a trial on, inputs that the step before carries over are left out: whoever repeats the trial feeds
its own.

A result of a run is run on the source's own feeds: the state of a decoder is what the source returned in the step
before, so that drift means the same here as on the samples of a run. An exported graph is fed its own state.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optim.arrays import Array, Feeds, Outputs, dtype_of
from optim.engine.export import (
    CAP,
    FLOOR,
    ROUNDING,
    FeedSet,
    OutputComparison,
    Variation,
    compare_output,
    epsilon,
    measure,
)
from optim.jobs import from_wire
from optim.model import TensorInfo

INDEX = "evidence.json"


@dataclass(frozen=True, slots=True)
class RecordedTrial:
    """A trial by the steps that it has among the samples of its component."""

    name: str
    first: int
    steps: int


@dataclass(frozen=True, slots=True)
class RecordedComponent:
    """A component without its module.

    Attributes:
        state: by output, the input that takes it in the next step.
        skipped: trials that the module itself refused, with the reason.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    state: Mapping[str, str]
    trials: tuple[RecordedTrial, ...]
    skipped: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything recorded of a source.

    Attributes:
        generations: how many greedy generations there are.
    """

    components: tuple[RecordedComponent, ...]
    facts: Mapping[str, object]
    generations: int

    def component(self, name: str) -> RecordedComponent:
        """The component of that name."""
        return next(component for component in self.components if component.name == name)


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """One step as it was recorded.

    Attributes:
        feeds: without the state.
        state: what the source returned in the step before, by the input that takes it.
    """

    feeds: Feeds
    state: Feeds
    valid: Mapping[str, NDArray[np.bool_]]
    outputs: Outputs


def read_evidence(folder: Path) -> Evidence:
    """What a pipeline recorded in a folder."""
    return from_wire(Evidence, json.loads((folder / INDEX).read_text()))


def steps_of(folder: Path, component: RecordedComponent, trial: RecordedTrial) -> Iterator[RecordedStep]:
    """The steps of a trial, one in memory at a time."""
    samples, state = FeedSet.open(folder / component.name), dict[str, Array]()
    for index in range(trial.first, trial.first + trial.steps):
        arrays = samples.sample(index)
        valid, outputs = part_of(arrays, "valid/"), part_of(arrays, "out/")
        counted = {name: array.astype(bool) for name, array in valid.items()}
        yield RecordedStep(part_of(arrays, "feed/"), state, counted, outputs)
        state = {taker: outputs[giver] for giver, taker in component.state.items()}


def part_of(arrays: Feeds, prefix: str) -> dict[str, Array]:
    """The arrays of a sample whose names begin so, by the rest of the name."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


LIMITS = {"float64": ROUNDING, "float32": ROUNDING, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest drift of an output by its type: what rounding explains between two libraries."""
_STEPS = 4.0
"""Units in the last place."""


def variations_of_source(folder: Path, component: RecordedComponent) -> dict[str, Variation]:
    """How each output of a source varies over all that was recorded.

    Nobody measures what rounding does inside of a source, as a run does with its original. So a slice that varies by
    less than rounding of the whole output may be has the scale of that rounding.
    """
    recorded: dict[str, list[tuple[Array, NDArray[np.bool_] | None]]] = {}
    for trial in component.trials:
        for step in steps_of(folder, component, trial):
            for name, array in step.outputs.items():
                recorded.setdefault(name, []).append((array, step.valid.get(name)))
    return {name: _beside_rounding(measure(samples), samples) for name, samples in recorded.items()}


def _beside_rounding(variation: Variation, samples: Sequence[tuple[Array, NDArray[np.bool_] | None]]) -> Variation:
    if not variation.slices:
        return variation
    dtype = samples[0][0].dtype
    largest = max(
        (float(np.abs(array).max(initial=0.0, where=np.isfinite(array))) for array, _ in samples), default=0.0
    )
    rounding = {axis: _STEPS * epsilon(dtype) * largest / table[0] for axis, table in variation.slices.items()}
    return variation.with_rounding(rounding).beside_rounding(FLOOR, CAP)


def compare_step(
    step: RecordedStep, outputs: Mapping[str, Array], variations: Mapping[str, Variation], *, cast: bool
) -> list[OutputComparison]:
    """Every output of one run against what the source computed.

    Args:
        step: as it was recorded.
        outputs: of the graph.
        variations: of the source's outputs.
        cast: compare in the source's type, where a pass that the user named has changed precision.
    """
    return [
        compare_output(
            name,
            expected,
            outputs[name].astype(expected.dtype, copy=False) if cast else outputs[name],
            step.valid.get(name),
            variations[name],
        )
        for name, expected in step.outputs.items()
    ]


def as_taken(feeds: Mapping[str, Array], inputs: Iterable[TensorInfo]) -> dict[str, Array]:
    """Recorded feeds as a graph takes them: what it has no input for is left out, types are its own."""
    return {
        info.name: feeds[info.name].astype(dtype_of(info.dtype), copy=False) for info in inputs if info.name in feeds
    }


def place_of(trial: RecordedTrial, step: int) -> str:
    """Where in the trials something happened, for a message."""
    return f"on '{trial.name}'" + (f", step {step + 1} of {trial.steps}" if trial.steps > 1 else "")
