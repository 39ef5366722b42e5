"""Job: hold what a run made against what its source computed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.place import Place
from optim._engine.jobs.job import Job
from optim._engine.sources.evidence import SourceDrift, compare_result, read_evidence
from optim.jobs.talk import Channel
from optim.model import Model
from optim.passes import Interface


@dataclass(frozen=True, slots=True)
class Request:
    """A result, and the evidence of its source.

    Attributes:
        model: with its session settings.
        original: the graph that was exported.
        interfaces: of the steps that made the one from the other.
    """

    model: Model
    place: Place
    original: Model
    interfaces: tuple[Interface, ...]
    evidence: Path
    component: str


@dataclass(frozen=True, slots=True)
class Answer:
    """How far it is from its source."""

    found: SourceDrift


JOB = Job(__name__, Request, Answer, here=True)


def run(request: Request, channel: Channel) -> Answer:
    """Open it as it will be opened, and compare."""
    component = read_evidence(request.evidence).component(request.component)
    with request.place.backend().open(request.model, request.place.target) as session:
        return Answer(
            compare_result(session, request.model, request.original, request.evidence, component, request.interfaces)
        )
