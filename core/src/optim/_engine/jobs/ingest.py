"""Job: bring the user's file into the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from optim._engine.graphs.ingest import ingest
from optim._engine.jobs.job import Job
from optim.jobs.channel import Channel
from optim.model import Model
from optim.onnx.files import size_bytes
from optim.onnx.operators import operator_counts, work_shares


@dataclass(frozen=True, slots=True)
class Request:
    """A file as the user named it, and the folder of the store."""

    path: Path
    store: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """The model in the store, what it takes on disk, its operators, and the share of its work that each does."""

    model: Model
    size_bytes: int
    operators: dict[str, int]
    work: dict[str, float] = field(default_factory=dict)


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Validate and store the file."""
    del channel
    model = ingest(request.path, request.store)
    return Answer(model, size_bytes(model), operator_counts(model.path), work_shares(model.path))
