"""What plugins assume about this machine's processor; a job of its own, since a runtime may be asked for it.

The job is run by :func:`assumed_here`, for one backend at a time: what one plugin does wrong costs its rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from optim.engine.inspect import Registry, held_backend, load_registry
from optim.jobs import Channel, WorkerFailed, from_wire, run_job, to_wire
from optim.processor import Finding
from optim.target import Target

_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Request:
    """A target, and the plugin of its backend."""

    target: Target
    backend_plugin: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What the backend's plugin assumes, as it holds on this machine."""

    found: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class AssumedFor:
    """The assumptions of a target's backend.

    Attributes:
        target: its name.
        plugin: that has the backend.
        found: what holds on this machine.
        failure: why the plugin could not say; else empty.
    """

    target: str
    plugin: str
    found: tuple[Finding, ...]
    failure: str = ""


def run(request: Request, channel: Channel) -> Answer:
    """Ask the backend; measure what can be measured."""
    backend = held_backend(load_registry(only=[request.backend_plugin]), request.target.backend)
    return Answer(tuple(one.here() for one in backend.assumptions(request.target)))


def assumed_here(registry: Registry) -> Iterator[AssumedFor]:
    """What is assumed for each target that can be used here; targets without assumptions are left out."""
    for target in registry.targets().values():
        if registry.unavailable(target) is not None or target.backend not in registry.offered("backend"):
            continue
        plugin = registry.offered("backend")[target.backend].plugin.name
        try:
            answer, _ = run_job(__name__, to_wire(Request(target.plain, plugin)), _SECONDS)
        except WorkerFailed as failed:
            yield AssumedFor(target.name, plugin, (), str(failed))
            continue
        if found := from_wire(Answer, answer).found:
            yield AssumedFor(target.name, plugin, found)
