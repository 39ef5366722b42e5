"""Job: the times of the nodes of some models, in short runs at the machine's clock.

Whoever started it is asked for the machine's clock when a model is open, and told when its runs are over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from optim._engine.compare.place import Place, mapped_feeds
from optim._engine.feeds.feedset import FeedSet
from optim._engine.jobs.job import Job
from optim._engine.timing.in_turns import timed
from optim._engine.timing.profiled import Runs, run_ms
from optim.arrays import Feeds
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.laboratory import NodeTime
from optim.model import Model
from optim.passes import Interface

LOOK_S = 0.1
"""Of timed runs of each model: one that takes a second is run six times."""

_MOST = 40
"""Runs of a small model: 200 held the machine's clock for 0.3 s."""

OPEN, RAN = "open", "ran"
"""Said when a model is to be run, which it is after an answer; and when that is over."""


@dataclass(frozen=True, slots=True)
class Fed:
    """A model, where it runs, and what lies between the original's feeds and its own."""

    model: Model
    place: Place
    interfaces: tuple[Interface, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What is run.

    Attributes:
        models: the original and the result, or the original alone.
        seconds: of timed runs of each, about.
    """

    models: tuple[Fed, ...]
    feeds: Path
    sample: int
    seconds: float = LOOK_S


@dataclass(frozen=True, slots=True)
class Answer:
    """The nodes of each model that is profiled, the dearest first, as the runtime executes them.

    Their times are without what the profiler takes.
    """

    models: tuple[tuple[NodeTime, ...], ...]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Profile each for a moment, at the clock.

    Raises:
        OptimError[not-profiled]: the target's runtime writes no profile.
    """
    feeds = FeedSet.open(request.feeds).sample(request.sample)
    found: list[tuple[NodeTime, ...]] = []
    for number, one in enumerate(request.models, 1):
        channel.event("progress", text=f"profiling model {number} of {len(request.models)}")
        try:
            nodes = _nodes(one, mapped_feeds(feeds, one.interfaces), request.seconds, channel)
        except OptimError:
            if not found:
                raise
            break  # the runtime of the result says nothing of its nodes
        found.append(tuple(sorted(nodes, key=lambda node: -node.ms)))
    return Answer(tuple(found))


def _nodes(one: Fed, feeds: Feeds, seconds: float, channel: Channel) -> tuple[NodeTime, ...]:
    """Of several runs the fastest tells what other programs did not slow down."""

    @contextmanager
    def clock() -> Iterator[None]:
        channel.event(OPEN)
        channel.receive()
        yield
        channel.event(RAN)

    runs = Runs(seconds, warm_up=1, least=1, share=0, most=_MOST)
    found, _ = timed(one.place, one.model, feeds, runs, lambda session, opened_ms: run_ms(session, feeds), clock=clock)
    return found.nodes
