"""Records what a source itself computes on its trials, and its greedy generation: the evidence of an export."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from optim.arrays import Array, Feeds, Outputs
from optim.drift import compare_outputs
from optim.engine.export import FeedSet, FeedWriter, Store
from optim.errors import OptimError, describe_exception
from optim.jobs import to_wire
from optim.source import Component, Source, TrialStep
from optim_plugins.export.evidence import INDEX, Evidence, RecordedComponent, RecordedTrial, part_of

_GENERATIONS = "generations"


def record(source: Source, folder: Path) -> Evidence:
    """Run every trial of a source on its own modules.

    Raises:
        OptimError[source-does-not-run]: a module refuses every trial.
    """
    folder.mkdir(parents=True, exist_ok=True)
    components = tuple(_record_component(component, folder) for component in source.components)
    evidence = Evidence(components, dict(source.facts), _record_generations(source, folder))
    (folder / INDEX).write_text(json.dumps(to_wire(evidence)))
    return evidence


def keep_evidence(store: Store, folder: Path) -> Path:
    """Move what :func:`record` left into the store, called by its content: the same source is kept once."""
    indexes = sorted(folder.rglob("*.json"))  # that of a feed set has the digest of its arrays
    digest = hashlib.sha256(b"".join(index.read_bytes() for index in indexes)).hexdigest()

    def move(into: Path) -> None:
        for entry in list(folder.iterdir()):
            shutil.move(entry, into / entry.name)

    return store.folder("references", f"source-{digest}", move)


def generations_of(folder: Path, count: int) -> Iterator[tuple[Feeds, Array]]:
    """Prompts with the tokens that the source's own greedy generation gave."""
    if count:
        samples = FeedSet.open(folder / _GENERATIONS)
        for index in range(count):
            arrays = samples.sample(index)
            yield part_of(arrays, "feed/"), arrays["tokens"]


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
            first.append((trial.steps[0], part_of(made[0], "out/")))
            trials.append(RecordedTrial(trial.name, before, len(made)))
        if not trials:
            raise OptimError(
                "source-does-not-run",
                f"{component.name} runs on none of the inputs that optim tried",
                skipped[0] if skipped else "there is no trial",
                "call the module on its example inputs; give dimensions that must be equal the same name: "
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
                f"output '{found.name}' of {component.name} changes from run to run",
                f"two runs on the same inputs: {found.problem or f'drift {found.relative_error:.3g}'}",
                "make the noise an input of forward, or switch it off in eval()",
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
