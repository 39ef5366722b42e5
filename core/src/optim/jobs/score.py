"""How good a model file is, for a pass that tries many models itself (``Context.score``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from optim.gate.drift import worst_drift
from optim.graphs.files import describe
from optim.jobs.place import Place, Reference, compare_session
from optim.model import SessionConfig
from optim.passes import Interface


def score_file(
    place: Place, reference: Reference, samples: Sequence[int], interfaces: Sequence[Interface],
    session: SessionConfig, path: Path,
) -> float:  # fmt: skip
    """1 less the drift from the original; minus infinity where outputs became NaN or infinite.

    Args:
        place: where it is run.
        reference: the original.
        samples: to compare on.
        interfaces: of the steps that made the model.
        session: settings to open it with.
        path: of the model, which lies outside the store.
    """
    model = describe(path, session=session, digest=path.name)
    with place.backend().open(model, place.target) as opened:
        return 1 - worst_drift(compare_session(opened, reference, samples, interfaces)).relative_l2
