"""A model file looked at by the job :mod:`optim_qnn.support.support`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from optim import OptimError

if TYPE_CHECKING:
    from optim import Target
    from optim_qnn.support.support import Support

_TIMEOUT_S = 900.0


def look(path: Path, target: str, data: str | None, say: Callable[[str], None]) -> Support:
    """What HTP takes of a model.

    Args:
        path: an ``.onnx`` file.
        target: its name, with settings.
        data: feeds whose shapes dynamic inputs get; None where there are none.
        say: told what is going on.

    Raises:
        OptimError: the model, the feeds or the target cannot be used.
    """
    from optim.cli_kit import read_feeds, read_model
    from optim.jobs import WorkerFailed, from_wire, run_job, to_wire
    from optim_qnn.support import support

    chosen = require_qnn(target)
    with TemporaryDirectory() as folder:
        store, feeds = Path(folder) / "models", Path(folder) / "feeds"
        say(f"reading {path.name}")
        model = read_model(path, store)
        if data is not None:
            read_feeds(data, model, feeds)
        say("asking HTP")
        request = support.Request(model, chosen.plain, feeds if data is not None else None, store)
        try:
            answer, _ = run_job(support.__name__, to_wire(request), _TIMEOUT_S)
        except WorkerFailed as failure:
            if failure.error is not None:
                raise failure.error from failure
            raise OptimError(
                "htp-not-asked",
                f"the check of {path} for HTP failed",
                failure.reason,
                "take the named node out of the model, or report this to Qualcomm",
                "onnxruntime-qnn",
            ) from failure
        return from_wire(support.Support, answer)


def require_qnn(name: str) -> Target:
    """The target of that name, where it runs on QNN.

    Raises:
        OptimError[not-qnn]: it does not.
        OptimError[target-unavailable]: QNN cannot be used here.
    """
    from optim.cli_kit import require_target

    target = require_target(name)
    if target.backend != "qnn":
        raise OptimError.usage(
            "not-qnn",
            f"target {name} does not run on QNN",
            f"it runs on {target.provider or target.backend}",
            "--target qnn",
            "optim-plugin-qnn",
        )
    return target
