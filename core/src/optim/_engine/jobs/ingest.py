"""Job: bring the user's file into the store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim._engine.graphs.ingest import ingest
from optim._engine.jobs.job import Job
from optim.jobs.channel import Channel
from optim.model import Model
from optim.onnx.files import size_bytes
from optim.onnx.operators import operator_counts


@dataclass(frozen=True, slots=True)
class Request:
    """A file as the user named it, and the folder of the store."""

    path: Path
    store: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """The model in the store, what it takes on disk, and its operators."""

    model: Model
    size_bytes: int
    operators: dict[str, int]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Validate and store the file."""
    del channel
    model = ingest(request.path, request.store)
    return Answer(model, size_bytes(model), operator_counts(model.path))
