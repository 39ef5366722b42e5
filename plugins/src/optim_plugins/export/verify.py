"""Holds exported graphs against what their source computed: shapes, padding and past lengths no exporter has seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from optim.arrays import Array
from optim.engine.export import Drift, OutputComparison, merge_samples, worst_drift
from optim.errors import ExitStatus, OptimError
from optim_plugins.export.evidence import (
    LIMITS,
    Evidence,
    RecordedComponent,
    RecordedTrial,
    as_taken,
    compare_step,
    place_of,
    steps_of,
    variations_of_source,
)
from optim_plugins.export.record import generations_of
from optim_plugins.goals.decoders.interface import session_inputs

if TYPE_CHECKING:
    import onnxruntime

_LOSSY_LIMIT = 5e-2


@dataclass(frozen=True, slots=True)
class Verified:
    """How far a graph is from its source.

    Attributes:
        trials: names of those it was compared on.
        skipped: those that the source itself refuses, with the reason.
        drift: of the worst output over all steps of all trials.
        tokens: greedy tokens compared one by one; 0 where the source generates nothing.
    """

    component: str
    trials: tuple[str, ...]
    skipped: tuple[str, ...]
    drift: Drift
    comparisons: tuple[OutputComparison, ...]
    tokens: int = 0
    notes: tuple[str, ...] = ()


def verify_component(
    session: onnxruntime.InferenceSession,
    folder: Path,
    component: RecordedComponent,
    *,
    lossy: bool = False,
    max_drift: float | None = None,
) -> Verified:
    """Repeat every trial on a session, feeding it its own state, and compare every output.

    Args:
        session: of the exported graph.
        folder: with the evidence.
        component: as recorded.
        lossy: a pass that the user named has changed precision.
        max_drift: that the user allows; None: what rounding explains.

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
                if max_drift is not None and comparison.dtype in LIMITS:  # whole numbers stay exact
                    limit = max_drift
                if comparison.problem or comparison.relative_error > limit:
                    raise _differs(component, trial, index, comparison, limit)
            worst = merge_samples(worst, compared)
    if not any(found.compared for found in worst.values()):
        what, cause = f"nothing of {component.name} could be compared", "every output is empty"
        raise OptimError("nothing-compared", what, cause, "give an example on which the source computes something")
    names = tuple(trial.name for trial in component.trials)
    return Verified(component.name, names, component.skipped, worst_drift(worst.values()), tuple(worst.values()))


def verify_generation(generate: object, folder: Path, evidence: Evidence) -> tuple[int, tuple[str, ...]]:
    """Greedy generation on the exported graphs, token for token against the source's own.

    Args:
        generate: ``generate(prompt, max_new_tokens=...)`` of :class:`optim.Decoder`.
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
            f"the exported {component.name} does not run on a trial on which its source does",
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
