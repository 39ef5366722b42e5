"""Job: a model in ONNX Runtime's own format, as the runtime optimizes it under the model's settings."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from optim import Model, SessionConfig, Target
from optim.jobs import Channel

LEVEL = "graph_optimization_level"


@dataclass(frozen=True, slots=True)
class Request:
    """What is written.

    Attributes:
        model: with its settings.
        target: where it runs.
        file: to be written.
    """

    model: Model
    target: Target
    file: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """What it is tied to.

    Attributes:
        version: of onnxruntime.
        processor: this one, in a word.
    """

    version: str
    processor: str


def run(request: Request, channel: Channel) -> Answer:
    """Have the runtime save what it makes of the model."""
    import onnxruntime

    from optim.onnx import open_session

    saving = SessionConfig({"optimized_model_filepath": str(request.file)}, {"session.save_model_format": "ORT"})
    open_session(request.model.path, request.model.session.updated(saving), request.target)
    return Answer(onnxruntime.__version__, platform.processor() or platform.machine())
