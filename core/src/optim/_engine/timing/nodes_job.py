"""The times of a model's nodes: runs with and without the profiler in turns, less what the profiler itself takes.

The profiler writes a record for each call of a node, with the shapes of all that goes in and out, and most of the time
that this takes lies inside the time that it records. Small nodes look several times dearer than they are. The same
model without the profiler tells how much that is: both are run in turns, so other programs slow both down alike, and
times less a constant for each record add up to a plain run.

As a job it takes the nodes of some models, in short runs at the machine's clock. Whoever started it is asked for the
clock when a model is open, and told when its runs are over.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from optim._engine.backends.held import HeldSession
from optim._engine.compare.place import Place, mapped_feeds
from optim._engine.feeds.feedset import FeedSet
from optim._engine.jobs.job import Job
from optim._engine.timing.profiled import fastest, not_profiled, profile_of, run_ms
from optim.arrays import Feeds
from optim.backend import NodeProfile, Session
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.laboratory import NodeTime, NodeTimes
from optim.model import Model
from optim.onnx.external_data import model_size_bytes
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
    """Profile each for a moment, at the clock."""
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


_MOST_OPEN_TWICE = 1 << 30
"""Bytes of a model up to which it is open with and without the profiler at once; beyond one comes after the other."""

_Told = TypeVar("_Told")
Clock = Callable[[], AbstractContextManager[object]]

_TURNS = 8
"""Of each session, at most; each begins with a run that does not count: threads of the other one spin a while."""

_MOST_RECORD_MS = 0.02
"""Of one record: 3 to 9 microseconds were seen on a busy machine; what is more is no cost of the profiler."""


@dataclass(frozen=True, slots=True)
class Runs:
    """How often a model is run.

    Attributes:
        seconds: of runs that are timed, about.
        share: of them that is told of, the fastest; 0: the fastest one alone.
    """

    seconds: float
    warm_up: int = 3
    least: int = 5
    share: float = 0.5
    most: int = 200

    def count(self, ms: float) -> int:
        """How many that is, where one takes so many milliseconds."""
        return int(min(self.most, max(self.least, 1e3 * self.seconds / max(ms, 1e-3))))


def timed(
    place: Place,
    model: Model,
    feeds: Feeds,
    runs: Runs,
    warm_up: Callable[[Session, float], _Told],
    weights: Mapping[str, list[int]] | None = None,
    clock: Clock = nullcontext,
) -> tuple[NodeTimes, _Told]:
    """The times of a model's nodes, which add up to a run without the profiler; and what the warm-up tells.

    ``warm_up`` first runs the session without the profiler, and is given the milliseconds of opening it. ``clock`` is
    entered for the runs that count; where the model is open but once at a time, for opening it too.
    """
    backend, found, weights = place.backend(), None, weights or {}
    started = time.perf_counter()
    with backend.open(model, place.target) as plain:
        told = warm_up(plain, 1e3 * (time.perf_counter() - started))
        if backend.owner is None and model_size_bytes(model) <= _MOST_OPEN_TWICE:
            found, times = in_turns(plain, place, model, feeds, runs, weights, clock)
        else:
            plain.release()
            with clock():
                times = [run_ms(plain, feeds) for _ in range(runs.count(run_ms(plain, feeds)))]
    if found is None:
        with clock():
            found = _alone(place, model, feeds, runs, weights)
    counted = fastest(times, runs.share, float)
    plain_ms = sum(counted) / len(counted)
    cost_ms = record_ms(found.nodes, plain_ms) if backend.owner is None else 0.0
    return replace(found, nodes=without_records(found.nodes, cost_ms), plain_ms=plain_ms, record_ms=cost_ms), told


def in_turns(
    plain: HeldSession,
    place: Place,
    model: Model,
    feeds: Feeds,
    runs: Runs,
    weights: Mapping[str, list[int]],
    clock: Clock = nullcontext,
) -> tuple[NodeTimes, list[float]]:
    """The times of nodes, and the milliseconds of plain runs made between them."""
    times: list[float] = []

    def take_turns(session: HeldSession) -> set[int]:
        count = runs.count([run_ms(session, feeds) for _ in range(runs.warm_up)][-1])
        turns = min(_TURNS, count, max(2, count // 4))
        each = math.ceil(count / turns)
        session.release()  # whoever has the clock may wait for the device
        plain.release()
        with clock():
            for _ in range(turns):
                times.extend([run_ms(plain, feeds) for _ in range(each + 1)][1:])
                for _ in range(each + 1):
                    session.run(feeds)
        return {*range(runs.warm_up), *(runs.warm_up + turn * (each + 1) for turn in range(turns))}

    return profile_of(place, model, take_turns, runs.share, weights), times


def _alone(place: Place, model: Model, feeds: Feeds, runs: Runs, weights: Mapping[str, list[int]]) -> NodeTimes:
    """The times of nodes without plain runs between them."""
    backend = place.backend()
    if backend.owner is not None:
        return _told(backend.profile(model, place.target, feeds, runs.seconds), place)

    def run_all(session: HeldSession) -> range:
        last_ms = [run_ms(session, feeds) for _ in range(runs.warm_up)][-1]
        for _ in range(runs.count(last_ms)):
            session.run(feeds)
        return range(runs.warm_up)

    return profile_of(place, model, run_all, runs.share, weights)


def _told(profile: NodeProfile | None, place: Place) -> NodeTimes:
    """What a runtime of its own says, with its nodes one after the other as events."""
    if profile is None:
        raise not_profiled(place)
    nodes = tuple(NodeTime(one.name, one.operator, 1e3 * one.seconds, 0.0, 0.0, 0.0) for one in profile.nodes)
    ends = list(itertools.accumulate(node.ms for node in nodes))
    events = [
        {"name": node.name, "ph": "X", "tid": 0, "ts": 1e3 * (end - node.ms), "dur": 1e3 * node.ms}
        for node, end in zip(nodes, ends, strict=True)
    ]
    share = min(1.0, (ends or [0.0])[-1] / (1e3 * profile.run_s))
    return NodeTimes(nodes, 0.0, 1e3 * profile.run_s, share, 0.0, events)


def record_ms(nodes: Sequence[NodeTime], plain_ms: float) -> float:
    """What the profiler takes for a record: with that taken off, the times of nodes add up to a plain run.

    0 where they are no more than that as they are, and never above what a record can take: then they do not add up.
    """
    low, high = 0.0, _MOST_RECORD_MS
    if _total(nodes, low) <= plain_ms:
        return low
    for _ in range(30):  # it falls with the cost
        middle = (low + high) / 2
        low, high = (middle, high) if _total(nodes, middle) > plain_ms else (low, middle)
    return high


def without_records(nodes: Sequence[NodeTime], cost_ms: float) -> tuple[NodeTime, ...]:
    """The nodes with the profiler's cost taken off; 0 for one that takes less than its records do."""
    return tuple(replace(node, ms=_own_ms(node, cost_ms)) for node in nodes)


def _total(nodes: Sequence[NodeTime], cost_ms: float) -> float:
    return sum(_own_ms(node, cost_ms) for node in nodes)


def _own_ms(node: NodeTime, cost_ms: float) -> float:
    return max(0.0, node.ms - cost_ms * node.records)
