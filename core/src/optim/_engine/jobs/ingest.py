"""Job: bring the user's file into the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf.message import DecodeError

from optim._engine.graphs.ingest import ingest
from optim._engine.graphs.user_files import Stamp, stamps_of
from optim._engine.jobs.job import Job
from optim.jobs.talk import Channel
from optim.model import Model
from optim.onnx.external_data import external_files, model_size_bytes
from optim.onnx.operators import operator_counts, work_shares


@dataclass(frozen=True, slots=True)
class Request:
    """A file as the user named it, and the folder of the store."""

    path: Path
    store: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """The user's file in the store.

    Attributes:
        work: about the share of the work that each operator does.
        read: the files that it came from, as they were; empty where they changed meanwhile, or are too young to tell.
    """

    model: Model
    size_bytes: int
    operators: dict[str, int]
    work: dict[str, float] = field(default_factory=dict)
    read: tuple[Stamp, ...] = ()


JOB = Job(__name__, Request, Answer, here=True)


def run(request: Request, channel: Channel) -> Answer:
    """Validate and store the file."""
    files = _files_of(request.path)
    before = stamps_of(files)
    model = ingest(request.path, request.store)
    read = before if before is not None and before == stamps_of(files) else ()
    return Answer(model, model_size_bytes(model), operator_counts(model.path), work_shares(model.path), read)


def _files_of(path: Path) -> list[Path]:
    """The file and those that it refers to; none of them where it cannot be read, which :func:`ingest` then says."""
    try:
        return [path, *(path.parent / name for name in external_files(path))]
    except (OSError, ValueError, DecodeError):
        return [path]
