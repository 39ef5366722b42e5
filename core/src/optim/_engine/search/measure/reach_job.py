"""Job: one token of a decoder behind a past, to see whether its graph goes as far as an answer does.

A graph may have room for fewer positions than an answer has tokens, and only what exported it knows how many.
"""

from __future__ import annotations

from dataclasses import dataclass

from optim._engine.backends.own_session import bindable
from optim._engine.compare.place import Place
from optim._engine.generation.decoder import session_interface
from optim._engine.generation.timing import run_at
from optim._engine.jobs.job import Job
from optim.jobs.channel import Channel
from optim.model import Model


@dataclass(frozen=True, slots=True)
class Request:
    """A decoder, where it runs, and how many tokens its past has."""

    model: Model
    place: Place
    depth: int


@dataclass(frozen=True, slots=True)
class Answer:
    """It goes that far."""


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Open it, and run the token.

    Raises:
        OptimError: it does not go that far, or there is no memory for the past.
    """
    with request.place.backend().open(request.model, request.place.target) as held:
        session = bindable(held, request.model)
        run_at(session, session_interface(session), request.depth)
    return Answer()
