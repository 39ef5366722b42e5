"""Job: the last token of an answer, to see whether the graph of a decoder goes as far as the answer does."""

from __future__ import annotations

from dataclasses import dataclass

from optim._engine.backends.own_session import bindable
from optim._engine.compare.place import Place
from optim._engine.goals.generating import TextGenerator
from optim._engine.jobs.job import Job
from optim.goal import GoalRequest
from optim.jobs.talk import Channel
from optim.model import Model
from optim.options import import_named


@dataclass(frozen=True, slots=True)
class Request:
    """A decoder, where it runs, the class of what drives it, and the answer."""

    model: Model
    place: Place
    generator: str
    asked: GoalRequest


@dataclass(frozen=True, slots=True)
class Answer:
    """It goes that far."""


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Open it, and run the token.

    Raises:
        OptimError: it does not go that far, or there is no memory for the past.
    """
    generator: TextGenerator = import_named(request.generator)()
    with request.place.backend().open(request.model, request.place.target) as held:
        generator.reach(bindable(held, request.model), request.asked)
    return Answer()
