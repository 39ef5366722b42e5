"""Holds exported graphs against what their source computed: shapes, padding and past lengths no exporter has seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from optim._engine.gate.drift import Drift, OutputComparison, merge_samples, worst_drift
from optim._engine.gate.outputs import CAP, FLOOR, compare_output
from optim._engine.gate.variation import Variation, epsilon, measure
from optim._engine.generation.interface import session_inputs
from optim._engine.sources.evidence import (
    Evidence,
    RecordedComponent,
    RecordedStep,
    RecordedTrial,
    generations_of,
    steps_of,
)
from optim.arrays import Array, dtype_of
from optim.errors import ExitStatus, OptimError
from optim.model import TensorInfo

if TYPE_CHECKING:
    import onnxruntime

LIMITS = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Largest drift of an output by its type: what rounding explains between two libraries."""
_STEPS = 4.0
"""Units in the last place."""

_LOSSY_LIMIT = 5e-2


@dataclass(frozen=True, slots=True)
class Verified:
    """How far a graph is from its source.

    Attributes:
        component: its name.
        trials: names of those it was held against.
        skipped: those that the source itself refuses, with the reason.
        drift: of the worst output over all steps of all trials.
        comparisons: every output.
        tokens: greedy tokens compared one by one; 0 where the source generates nothing.
        notes: for the report.
    """

    component: str
    trials: tuple[str, ...]
    skipped: tuple[str, ...]
    drift: Drift
    comparisons: tuple[OutputComparison, ...]
    tokens: int = 0
    notes: tuple[str, ...] = ()


def verify_component(
    session: onnxruntime.InferenceSession, folder: Path, component: RecordedComponent, *, lossy: bool = False
) -> Verified:
    """Repeat every trial on a session, feeding it its own state, and compare every output.

    Args:
        session: of the exported graph.
        folder: with the evidence.
        component: as recorded.
        lossy: a pass that the user named has changed precision.

    Raises:
        OptimError[export-differs]: an output is too far from the source's; names the output, the trial and the step.
        OptimError[export-refuses]: the graph does not run on a trial that the source runs on.
    """
    worst: dict[str, OutputComparison] = {}
    variations = variations_of_source(folder, component)
    for trial in component.trials:
        carried: dict[str, Array] = {}
        for index, step in enumerate(steps_of(folder, component, trial)):
            outputs = _run(session, component, {**step.feeds, **carried}, trial, index)
            carried = {taker: outputs[giver] for giver, taker in component.state.items()}
            compared = compare_step(step, outputs, variations, cast=lossy)
            for comparison in compared:
                limit = _LOSSY_LIMIT if lossy else LIMITS.get(comparison.dtype, 0.0)
                if comparison.problem or comparison.relative_error > limit:
                    raise _differs(component, trial, index, comparison, limit)
            worst = merge_samples(worst, compared)
    if not any(found.compared for found in worst.values()):
        what, cause = f"nothing of {component.name} could be compared", "every output is empty"
        raise OptimError("nothing-compared", what, cause, "give an example on which the source computes something")
    names = tuple(trial.name for trial in component.trials)
    return Verified(component.name, names, component.skipped, worst_drift(worst.values()), tuple(worst.values()))


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
        compare_output(name, expected, _as(outputs[name], expected, cast), step.valid.get(name), variations[name])
        for name, expected in step.outputs.items()
    ]


def as_taken(feeds: Mapping[str, Array], inputs: Iterable[TensorInfo]) -> dict[str, Array]:
    """Recorded feeds as a graph takes them: what it has no input for is left out, types are its own."""
    return {
        info.name: feeds[info.name].astype(dtype_of(info.dtype), copy=False) for info in inputs if info.name in feeds
    }


def verify_generation(generate: object, folder: Path, evidence: Evidence) -> tuple[int, tuple[str, ...]]:
    """Greedy generation on the exported graphs, token for token against the source's own.

    Args:
        generate: ``generate(prompt, max_new_tokens=...)`` of :class:`optim._engine.generation.decoder.Decoder`.
        folder: with the evidence.
        evidence: of the source.

    Returns:
        How many tokens were equal, and notes.

    Raises:
        OptimError[generation-differs]: at the first token that is another.
    """
    assert callable(generate)
    total, distinct = 0, set()
    for prompt, expected in generations_of(folder, evidence.generations):
        got = np.asarray(generate(prompt, max_new_tokens=expected.shape[1]))
        width = min(got.shape[1], expected.shape[1])
        wrong = np.argwhere(got[:, :width] != expected[:, :width])
        if wrong.size:
            row, position = (int(number) for number in wrong[0])
            where = f"row {row}, token {position}: {int(got[row, position])} instead of {int(expected[row, position])}"
            raise _other_tokens(where)
        if got.shape != expected.shape:
            raise _other_tokens(f"{got.shape[1]} tokens instead of {expected.shape[1]}")
        total += int(got[:, :width].size)
        distinct |= set(expected.ravel().tolist())
    collapsed = len(distinct) == 1
    return total, ("greedy generation gives one token only, so its agreement says little",) if collapsed else ()


def _other_tokens(where: str) -> OptimError:
    return OptimError(
        "generation-differs",
        "the exported decoder generates other tokens than the source",
        where,
        "the graph's logits agree, so two tokens may be equally likely: give weights that are trained",
        status=ExitStatus.NOT_HELD,
    )


def _run(
    session: onnxruntime.InferenceSession,
    component: RecordedComponent,
    feeds: Mapping[str, Array],
    trial: RecordedTrial,
    step: int,
) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    given = as_taken(feeds, session_inputs(session.get_inputs()))
    try:
        return dict(zip(names, session.run(None, given), strict=True))
    except Exception as error:  # whatever the runtime says, the graph does not run
        shapes = ", ".join(f"{name} {'x'.join(map(str, a.shape))}" for name, a in list(feeds.items())[:4])
        raise OptimError(
            "export-refuses",
            f"the exported {component.name} does not run where its source does",
            f"{place_of(trial, step)} ({shapes}): {str(error).splitlines()[0][:300]}",
            "a size became a constant: give an example of another size, or leave the dimension fixed with --dynamic",
            status=ExitStatus.NOT_HELD,
        ) from error


def _differs(
    component: RecordedComponent, trial: RecordedTrial, step: int, found: OutputComparison, limit: float
) -> OptimError:
    drift = f"drift {found.relative_error:.3g}, {limit:.3g} allowed, largest difference {found.max_abs:.3g}"
    return OptimError(
        "export-differs",
        f"output '{found.name}' of the exported {component.name} is not what its source computes",
        f"{place_of(trial, step)}: {found.problem or drift}",
        "the module decides by values or sizes of the example: give an example of another size, or export with "
        "--without torch.dynamo",
        status=ExitStatus.NOT_HELD,
    )


def place_of(trial: RecordedTrial, step: int) -> str:
    """Where in the trials something happened, for a message."""
    return f"on '{trial.name}'" + (f", step {step + 1} of {trial.steps}" if trial.steps > 1 else "")


def _as(array: Array, expected: Array, lossy: bool) -> Array:
    """The output in the source's type, where a pass that the user named has changed precision."""
    return array.astype(expected.dtype) if lossy and array.dtype != expected.dtype else array
