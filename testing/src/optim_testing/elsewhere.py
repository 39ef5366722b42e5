"""Job: apply a pass, found by its import path, in a process that knows nothing else of it."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from optim.backend import Backend
from optim.engine.testing import FeedSet, Job
from optim.jobs import Channel, from_wire
from optim.model import Model
from optim.options import PassOptions, parse_options
from optim.passes import Pass
from optim.target import Target
from optim_testing.trial import Trial

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Request:
    """One pass with its options on one model.

    Attributes:
        path: ``package.module:Class``.
        backend: that runs models, likewise.
        model: in the store.
        target: without its probe.
        options: JSON values.
        store: folder of the store.
        feeds: folder of the feeds.
    """

    path: str
    backend: str
    model: Model
    target: Target
    options: dict[str, Any]
    store: Path
    feeds: Path


@dataclass(frozen=True, slots=True)
class Answer:
    """The digest of what the pass made."""

    digest: str


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Import, apply."""
    pass_class: type[Pass] = _imported(request.path)
    backend: type[Backend] = _imported(request.backend)
    trial = Trial(request.model, request.target, backend(), FeedSet.open(request.feeds), request.store)
    return Answer(trial.apply(pass_class(), request.model, parse_options(pass_class, request.options)).model.digest)


def digest_elsewhere(trial: Trial, transformation: Pass, options: PassOptions) -> str:
    """Apply a pass in a process of its own; the digest of the model it makes there.

    Raises:
        WorkerFailed: the process raised, crashed, or did not come back.
    """
    request = Request(
        _path(type(transformation)),
        _path(type(trial.backend)),
        trial.model,
        trial.target.plain,
        options.model_dump(mode="json"),
        trial.store,
        trial.feeds.folder,
    )
    with JOB.start(request) as worker:
        return from_wire(Answer, worker.result(_TIMEOUT_S)).digest


def _path(cls: type) -> str:
    """Where a class is found; one by declaration has the name of whatever it was assigned to."""
    names = (name for name, value in vars(sys.modules[cls.__module__]).items() if value is cls)
    return f"{cls.__module__}:{next(names, cls.__qualname__)}"


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))
