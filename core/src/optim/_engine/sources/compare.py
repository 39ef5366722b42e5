"""Compares the outputs of a graph with what its source computed on the same feeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from optim._engine.gate.drift import OutputComparison
from optim._engine.gate.outputs import CAP, FLOOR, compare_output
from optim._engine.gate.variation import Variation, epsilon, measure
from optim._engine.sources.evidence import RecordedComponent, RecordedStep, RecordedTrial, steps_of
from optim.arrays import Array, dtype_of
from optim.model import TensorInfo

LIMITS = {"float64": 1e-4, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
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
        compare_output(name, expected, _as(outputs[name], expected, cast), step.valid.get(name), variations[name])
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


def _as(array: Array, expected: Array, lossy: bool) -> Array:
    """The output in the source's type, where a pass that the user named has changed precision."""
    return array.astype(expected.dtype) if lossy and array.dtype != expected.dtype else array
