"""What a source itself computes on its trials: recorded by the pipeline that exports it, compared with graphs here.

A folder for each component, one sample for each step: ``feed/<input>``, ``valid/<output>`` and ``out/<output>``. From
the second step of a trial on, inputs that the step before carries over are left out: whoever repeats the trial feeds
its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optim._engine.feeds.feedset import FeedSet
from optim.arrays import Array, Feeds, Outputs
from optim.jobs.wire import from_wire
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
        name: of the component.
        inputs: as it declares them.
        outputs: likewise.
        state: by output, the input that takes it in the next step.
        trials: what was recorded.
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
        components: in order.
        facts: of the source.
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
    """One step as it was recorded."""

    feeds: Feeds
    valid: Mapping[str, NDArray[np.bool_]]
    outputs: Outputs


def read_evidence(folder: Path) -> Evidence:
    """What a pipeline recorded in a folder."""
    return from_wire(Evidence, json.loads((folder / INDEX).read_text()))


def steps_of(folder: Path, component: RecordedComponent, trial: RecordedTrial) -> Iterator[RecordedStep]:
    """The steps of a trial, one in memory at a time."""
    samples = FeedSet.open(folder / component.name)
    for index in range(trial.first, trial.first + trial.steps):
        arrays = samples.sample(index)
        valid = {name: array.astype(bool) for name, array in part_of(arrays, "valid/").items()}
        yield RecordedStep(part_of(arrays, "feed/"), valid, part_of(arrays, "out/"))


def part_of(arrays: Feeds, prefix: str) -> dict[str, Array]:
    """The arrays of a sample whose names begin so, by the rest of the name."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
