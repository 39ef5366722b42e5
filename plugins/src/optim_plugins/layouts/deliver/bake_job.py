"""Job: a graph as ONNX Runtime optimizes it under a result's settings, for consumers that cannot be told these.

A consumer optimizes what it opens once more, with its own settings: what was switched off would come back wherever its
pattern is still there. So the graph that was saved is opened as the consumer does, and its operations must stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim.engine.layouts import operations_digest
from optim.errors import OptimError
from optim.jobs import Channel
from optim.model import Model, SessionConfig
from optim.target import Target

_SAVED = "optimized_model_filepath"


@dataclass(frozen=True, slots=True)
class Request:
    """The result, and how it is going to be opened.

    Attributes:
        model: with its tuned settings.
        target: where it runs.
        carried: settings that the consumer opens it with.
        folder: empty; the graph is written there.
    """

    model: Model
    target: Target
    carried: SessionConfig
    folder: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it.

    Attributes:
        graph: what the runtime made of the result; None where it has not stayed as it was.
        runtime: that made it, with its version.
        reason: why there is none.
    """

    graph: Path | None
    runtime: str = ""
    reason: str = ""


def run(request: Request, channel: Channel) -> Answer:
    """Save the runtime's own graph, and see whether it stays as it is when it is opened as the consumer does."""
    import onnxruntime

    from optim.onnx import open_session

    baked, again = request.folder / "model.onnx", request.folder / "again.onnx"
    try:
        open_session(request.model.path, _saving(request.model.session, baked), request.target)
        open_session(baked, _saving(request.carried, again), request.target)
    except OptimError as error:
        return Answer(None, reason=f"{error.what}: {error.cause}")
    same = operations_digest(baked.read_bytes()) == operations_digest(again.read_bytes())
    again.unlink()
    if not same:
        return Answer(None, reason="the consumer's own optimizers would change the graph again")
    return Answer(baked, f"onnxruntime {onnxruntime.__version__}")


def _saving(session: SessionConfig, path: Path) -> SessionConfig:
    return session.updated(SessionConfig({_SAVED: str(path)}))
