"""Job: hold what the user said of passes against the model, before it is opened or run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optim.jobs.distrust import Untouched
from optim.model import Model
from optim.options import parse_options
from optim.plugins.registry import load_registry
from optim.processes.channel import Channel
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Asked:
    """A pass that the user named with options."""

    name: str
    plugin: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """The user's model, in the store, and the passes to ask."""

    model: Model
    target: Target
    passes: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """Nothing was refused."""


def run(request: Request, channel: Channel) -> Answer:
    """Ask each pass.

    Raises:
        OptimError: what the first of them refused.
    """
    del channel
    registry = load_registry(only=sorted({asked.plugin for asked in request.passes}))
    for asked in request.passes:
        pass_class = registry.find_pass(asked.name, request.target).over_models
        before = Untouched.now(request.model)
        pass_class().refuse_for(parse_options(pass_class, asked.options), request.model, request.target)
        before.require(asked.name)
    return Answer()
