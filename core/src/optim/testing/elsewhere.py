"""Job: apply a pass, found by its import path, in a process that knows nothing else of it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from optim.jobs.offer import context_for
from optim.model import Model
from optim.options import parse_options
from optim.passes import Pass
from optim.processes.channel import Channel
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Request:
    """One pass with its options on one model.

    Attributes:
        path: ``package.module:Class``.
        model: in the store.
        target: without its probe.
        options: JSON values.
        store: folder of the store.
        feeds: folder of the feeds.
        seed: of the context.
    """

    path: str
    model: Model
    target: Target
    options: dict[str, Any]
    store: Path
    feeds: Path
    seed: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The digest of what the pass made."""

    digest: str


def run(request: Request, channel: Channel) -> Answer:
    """Import, apply."""
    del channel
    module, _, name = request.path.partition(":")
    found: Any = importlib.import_module(module)
    pass_class: type[Pass] = reduce(getattr, name.split("."), found)
    with context_for(request.target, request.store, request.feeds, request.seed) as context:
        result = pass_class().apply(request.model, parse_options(pass_class, request.options), context)
    return Answer(result.model.digest)
