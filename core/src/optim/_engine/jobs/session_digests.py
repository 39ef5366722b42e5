"""Job: what the runtime makes of one graph under several session settings, as digests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from optim._engine.compare.place import Place
from optim._engine.jobs.job import Job
from optim.jobs.talk import Channel
from optim.model import Model


@dataclass(frozen=True, slots=True)
class Request:
    """Models of one graph, to be opened one after the other.

    Attributes:
        store: folder of the store; scratch files lie beside it.
        seconds: after which no further model is opened.
    """

    models: tuple[Model, ...]
    place: Place
    store: Path
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """A digest for each model, in order; empty where the runtime does not tell, or where there was no time."""

    digests: tuple[str, ...]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Open each model, and have the runtime write what it made of it."""
    backend, deadline = request.place.backend(), time.monotonic() + request.seconds
    found = []
    request.store.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=request.store.parent, prefix="scratch-") as scratch:
        for model in request.models:
            in_time = time.monotonic() < deadline
            found.append(backend.session_digest(model, request.place.target, Path(scratch)) if in_time else "")
    return Answer(tuple(found))
