"""How good a model file is, for a pass that tries many models itself (``Context.score``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optim._engine.compare.place import Place, Reference, compare_session
from optim._engine.compare.task import measure_task
from optim._engine.gate.drift import worst_drift
from optim.model import SessionConfig
from optim.onnx.files import describe
from optim.passes import Interface


def score_file(
    place: Place,
    reference: Reference,
    samples: Sequence[int],
    interfaces: Sequence[Interface],
    session: SessionConfig,
    path: Path,
) -> float:
    """The run's task metric, turned so that higher is better; without one, 1 less the drift from the original.

    Args:
        place: where it is run.
        reference: the original, and the task metric where the user named one.
        samples: to compare on where there is no metric.
        interfaces: of the steps that made the model.
        session: settings to open it with.
        path: of the model, which lies outside the store.

    Returns:
        Minus infinity where outputs became NaN or infinite.

    Raises:
        OptimError: metric-failed, metric-nonsense.
    """
    model = describe(path, session=session, digest=path.name)
    with place.backend().open(model, place.target) as opened:
        task = measure_task(opened, reference, interfaces, everything=False)
        if task is not None and reference.task is not None:
            return task.value if reference.task.higher_is_better else -task.value
        return 1 - worst_drift(compare_session(opened, reference, samples, interfaces)).relative_l2
