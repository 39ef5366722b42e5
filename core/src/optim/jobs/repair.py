"""Job: find which nodes a lossy pass must leave alone to keep the budget; every drift is measured in this process."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from optim.context import Context
from optim.gate.drift import worst_drift
from optim.gate.repair import OutOfEvaluations, Repair, find_keep
from optim.graphs.external_data import external_files
from optim.jobs.candidate import Request as CandidateRequest
from optim.jobs.offer import context_for
from optim.jobs.place import compare_session
from optim.model import Model
from optim.options import parse_options
from optim.passes import Pass
from optim.plugins.registry import load_registry
from optim.processes.channel import Channel


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate that broke the budget.

    Attributes:
        candidate: the pass with its options, and what it is compared with.
        whole: its drift.
        limit: what it may be.
        evaluations: at most so many drifts are measured.
        seconds: after which no further one is begun.
    """

    candidate: CandidateRequest
    whole: float
    limit: float
    evaluations: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What to keep, or None where nothing was found in time."""

    repair: Repair | None


def run(request: Request, channel: Channel) -> Answer:
    """Search, with the pass and the backend loaded once."""
    asked = request.candidate
    pass_class = load_registry(only=[asked.plugin]).find_pass(asked.name, asked.place.target).over_models
    backend = asked.place.backend()
    deadline = time.monotonic() + request.seconds
    with context_for(asked.place.target, asked.store, asked.reference.feeds, asked.seed) as context:
        transformation = pass_class()
        nodes = transformation.keepable(asked.model, parse_options(pass_class, asked.options))

        def drift_of(keep: frozenset[str]) -> float:
            if time.monotonic() > deadline:
                raise OutOfEvaluations
            made = _apply(transformation, asked, sorted(keep), context)
            try:
                with backend.open(made, asked.place.target) as session:
                    found = compare_session(session, asked.reference, asked.samples, asked.interfaces)
            finally:
                _discard(made, asked.model)
            channel.event("measured", keep=len(keep), drift=worst_drift(found).relative_l2)
            return worst_drift(found).relative_l2

        return Answer(find_keep(nodes, drift_of, request.whole, request.limit, request.evaluations))


def _apply(transformation: Pass, asked: CandidateRequest, keep: list[str], context: Context) -> Model:
    options: dict[str, Any] = {**asked.options, "keep": keep}
    return transformation.apply(asked.model, parse_options(type(transformation), options), context).model


def _discard(made: Model, parent: Model) -> None:
    """Delete a model that was only measured: its graph, and the data that its parent does not have."""
    if made.path == parent.path:
        return
    for location in set(external_files(made.path)) - set(external_files(parent.path)):
        (made.path.parent / location).unlink(missing_ok=True)
    made.path.unlink(missing_ok=True)
