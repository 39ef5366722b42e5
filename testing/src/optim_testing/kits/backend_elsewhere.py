"""Job: run a model once, by a backend found by its import path, in a process that knows nothing else of it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from optim.engine.testing import HeldBackend, Job
from optim.jobs import Channel
from optim.model import Model
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Request:
    """A model and one sample.

    Attributes:
        path: ``package.module:Class`` of the backend.
        model: to open.
        target: without its probe.
        feeds: an ``.npz``.
        outputs: an ``.npz`` to write.
    """

    path: str
    model: Model
    target: Target
    feeds: Path
    outputs: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """Where nodes ran."""

    executed_on: dict[str, float]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Import, open, run."""
    module, _, name = request.path.partition(":")
    kind: Any = reduce(getattr, name.split("."), importlib.import_module(module))
    with np.load(request.feeds) as feeds, HeldBackend(kind, "").open(request.model, request.target) as session:
        outputs = session.run(dict(feeds))
        np.savez(request.outputs, allow_pickle=False, **dict[str, Any](outputs))
        return Answer(dict(session.executed_on))
