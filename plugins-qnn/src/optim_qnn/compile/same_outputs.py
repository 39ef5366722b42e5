"""Job: whether compiled models compute on HTP what they did before they were compiled, bit for bit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim import ExitStatus, Model, OptimError, Target
from optim.jobs import Channel

_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class Request:
    """Models and what became of them.

    Attributes:
        models: in a store.
        compiled: files, in the same order.
        target: HTP.
        scratch: where feeds that are made up may lie.
    """

    models: tuple[Model, ...]
    compiled: tuple[Path, ...]
    target: Target
    scratch: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """How many feeds each was run on."""

    samples: int


def run(request: Request, channel: Channel) -> Answer:
    """Make up feeds, and run both.

    Raises:
        OptimError[other-outputs]: an output differs; its name and the largest difference.
    """
    import numpy as np

    from optim.cli_kit import made_up_feeds
    from optim.providers import RECORD_ASSIGNMENT
    from optim_qnn.htp.backend import QnnBackend
    from optim_qnn.htp.open_session import open_on_qnn
    from optim_qnn.htp.profile import QnnSession

    backend = QnnBackend()
    for number, (model, path) in enumerate(zip(request.models, request.compiled, strict=True)):
        with backend.open_reference(model, request.target) as reference:
            feeds = made_up_feeds(model, request.scratch / f"feeds{number}", seed=number, run=reference.run)
        with (
            backend.open(model, request.target) as before,
            QnnSession(open_on_qnn(path, model.session, request.target, extra_config=RECORD_ASSIGNMENT)) as after,
        ):
            for sample in feeds[:_SAMPLES]:
                expected, got = before.run(sample), after.run(sample)
                for name, array in expected.items():
                    if not np.array_equal(array, got[name], equal_nan=True):
                        differences = np.abs(np.asarray(array, np.float64) - np.asarray(got[name], np.float64))
                        raise OptimError(
                            "other-outputs",
                            f"{path.stem}, compiled with others, computes something else",
                            f"output '{name}' differs by up to {differences.max():.3g}",
                            "compile the models one by one, and report this to Qualcomm",
                            "onnxruntime-qnn",
                            ExitStatus.NOT_HELD,
                        )
        channel.event("compared")
    return Answer(_SAMPLES)
