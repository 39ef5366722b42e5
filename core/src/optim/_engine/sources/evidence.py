"""What a source itself computes on its trials, recorded in one process and held against graphs in another.

A folder for each component, one sample for each step: ``feed/<input>``, ``valid/<output>`` and ``out/<output>``. From
the second step of a trial on, inputs that the step before carries over are left out: whoever repeats the trial feeds
its own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optim._engine.feeds.feedset import FeedSet, FeedWriter
from optim._engine.store import Store
from optim.arrays import Array, Feeds, Outputs
from optim.drift import compare_outputs
from optim.errors import OptimError, describe_exception
from optim.jobs.wire import from_wire, to_wire
from optim.model import TensorInfo
from optim.source import Component, Source, TrialStep

_INDEX = "evidence.json"
_GENERATIONS = "generations"


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


def record(source: Source, folder: Path) -> Evidence:
    """Run every trial of a source on its own modules.

    Raises:
        OptimError[source-does-not-run]: a module refuses every trial.
    """
    folder.mkdir(parents=True, exist_ok=True)
    components = tuple(_record_component(component, folder) for component in source.components)
    evidence = Evidence(components, dict(source.facts), _record_generations(source, folder))
    (folder / _INDEX).write_text(json.dumps(to_wire(evidence)))
    return evidence


def read_evidence(folder: Path) -> Evidence:
    """What :func:`record` left in a folder."""
    return from_wire(Evidence, json.loads((folder / _INDEX).read_text()))


def keep_evidence(store: Store, folder: Path) -> Path:
    """Move what :func:`record` left into the store, called by its content: the same source is kept once."""
    indexes = sorted(folder.rglob("*.json"))  # that of a feed set has the digest of its arrays
    digest = hashlib.sha256(b"".join(index.read_bytes() for index in indexes)).hexdigest()

    def move(into: Path) -> None:
        for entry in list(folder.iterdir()):
            shutil.move(entry, into / entry.name)

    return store.folder("references", f"source-{digest}", move)[0]


def steps_of(folder: Path, component: RecordedComponent, trial: RecordedTrial) -> Iterator[RecordedStep]:
    """The steps of a trial, one in memory at a time."""
    samples = FeedSet.open(folder / component.name)
    for index in range(trial.first, trial.first + trial.steps):
        arrays = samples.sample(index)
        valid = {name: array.astype(bool) for name, array in _part(arrays, "valid/").items()}
        yield RecordedStep(_part(arrays, "feed/"), valid, _part(arrays, "out/"))


def generations_of(folder: Path, count: int) -> Iterator[tuple[Feeds, Array]]:
    """Prompts with the tokens that the source's own greedy generation gave."""
    if count:
        samples = FeedSet.open(folder / _GENERATIONS)
        for index in range(count):
            arrays = samples.sample(index)
            yield _part(arrays, "feed/"), arrays["tokens"]


def _record_component(component: Component, folder: Path) -> RecordedComponent:
    trials: list[RecordedTrial] = []
    skipped: list[str] = []
    first: list[tuple[TrialStep, Outputs]] = []
    with FeedWriter(folder / component.name) as writer:
        for trial in component.trials():
            before, made = writer.count, []
            carried: dict[str, Array] = {}
            try:
                for step in trial.steps:
                    outputs = component.run({**step.feeds, **carried})
                    carried = {taker: outputs[giver] for giver, taker in component.state.items()}
                    made.append(_named(step.feeds, "feed/") | _named(step.valid, "valid/") | _named(outputs, "out/"))
            except Exception as error:  # the user's module may raise anything
                skipped.append(f"{trial.name}: {describe_exception(error)}")
                continue
            for sample in made:
                writer.add(sample)
            first.append((trial.steps[0], _part(made[0], "out/")))
            trials.append(RecordedTrial(trial.name, before, len(made)))
        if not trials:
            raise OptimError(
                "source-does-not-run",
                f"{component.name} runs on nothing that it was tried with",
                skipped[0] if skipped else "there is no trial",
                "run the module by hand on its example inputs; name dimensions that must agree alike: "
                "--dynamic input=batch,sequence",
            )
        writer.finish("trials", ())
    _require_repeatable(component, first)
    return RecordedComponent(
        component.name, component.inputs, component.outputs, dict(component.state), tuple(trials), tuple(skipped)
    )


def _require_repeatable(component: Component, recorded: Sequence[tuple[TrialStep, Outputs]]) -> None:
    """That the module gives the same twice: nothing can be proved equal to one that does not.

    Args:
        component: that is run again.
        recorded: the first step of each trial, and what it gave.

    Raises:
        OptimError[source-not-repeatable]: it does not.
    """
    pairs = ((outputs, component.run(step.feeds)) for step, outputs in recorded)
    for found in compare_outputs(pairs, [step.valid for step, _ in recorded]):
        if not found.is_rounding:
            raise OptimError(
                "source-not-repeatable",
                f"output '{found.name}' of {component.name} is another each time",
                f"two runs on the same inputs: {found.problem or f'drift {found.relative_error:.3g}'}",
                "draw nothing at random in forward: make the noise an input, or switch it off in eval()",
            )


def _record_generations(source: Source, folder: Path) -> int:
    if source.generations is None:
        return 0
    with FeedWriter(folder / _GENERATIONS) as writer:
        for generation in source.generations():
            writer.add(_named(generation.prompt, "feed/") | {"tokens": generation.tokens})
        writer.finish("greedy generation", ())
        return writer.count


def _named(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {prefix + name: array for name, array in arrays.items()}


def _part(arrays: Feeds, prefix: str) -> dict[str, Array]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
