"""Job: where the time of some models goes, node by node, as ONNX Runtime's own profiler sees it.

Each model is opened twice: without the profiler for what a first call and a new largest shape cost, and with it for the
times of nodes, with the runtime's optimizers on as the user has them.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx

from optim._engine.compare.place import Place
from optim._engine.diagnosis.timing.origin import Origin, joined
from optim._engine.diagnosis.timing.trace import NodeTime, Timeline, read_timeline
from optim._engine.feeds.feedset import FeedSet
from optim._engine.jobs.job import Job
from optim.arrays import Feeds
from optim.backend import NodeProfile, Session
from optim.errors import ExitStatus, OptimError
from optim.jobs.channel import Channel
from optim.model import Model, SessionConfig, SessionValue

_WARM_UP = 3
_LEAST_RUNS, _MOST_RUNS = 5, 200
_MATRIX = 768
"""Rows and columns of the product that the roofline is measured with: in cache, and long enough for all threads."""

_COPIED_BYTES = 64 << 20
"""Of the copy that it is measured with: beyond any cache."""


@dataclass(frozen=True, slots=True)
class Request:
    """Models to profile.

    Attributes:
        models: the first is what the others are joined with.
        place: where they run.
        feeds: folder of the samples.
        samples: those that may be used; the smallest and the largest are.
        seconds: for each model, about.
        trace: write a trace of all there; empty: none.
    """

    models: tuple[Model, ...]
    place: Place
    feeds: Path
    samples: tuple[int, ...]
    seconds: float
    trace: str = ""


@dataclass(frozen=True, slots=True)
class FirstCalls:
    """What a first call costs, in ms.

    Attributes:
        open: making the session.
        first: the first run, on the smallest sample.
        smallest: a further run on it.
        grown: the first run on the largest sample; 0 where all are of one size.
        largest: a further run on it.
    """

    open: float
    first: float
    smallest: float
    grown: float
    largest: float


@dataclass(frozen=True, slots=True)
class Profile:
    """One model.

    Attributes:
        nodes: the dearest first.
        run_ms: of a run with the profiler on, the mean.
        share: of it that is in nodes.
        first: what first calls cost.
    """

    nodes: tuple[NodeTime, ...]
    run_ms: float
    share: float
    first: FirstCalls


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found.

    Attributes:
        models: in the order of the request.
        origins: of the first's and the second's nodes, by what they compute both; empty with one model.
        gflops: this machine's, of a product of float32 matrices, all threads.
        gbytes: its memory's per second, read and written by a copy.
        shape: of the sample that was run, by input.
    """

    models: tuple[Profile, ...]
    origins: tuple[Origin, ...]
    gflops: float
    gbytes: float
    shape: dict[str, tuple[int, ...]]


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Profile one model after the other.

    Raises:
        OptimError[not-profiled]: the target's runtime writes no profile.
    """
    feeds = FeedSet.open(request.feeds)
    sized = sorted(request.samples, key=lambda number: sum(a.size for a in feeds.sample(number).values()))
    smallest, largest = feeds.sample(sized[0]), feeds.sample(sized[-1])
    timelines, profiles, graphs = [], [], []
    for number, model in enumerate(request.models, 1):
        channel.event("progress", text=f"profiling model {number} of {len(request.models)}")
        first = _first_calls(request, model, smallest, largest)
        timeline, graph = _profiled(request, model, largest)
        nodes = tuple(sorted(timeline.nodes, key=lambda node: -node.ms))
        profiles.append(Profile(nodes, timeline.run_ms, timeline.share, first))
        timelines.append(timeline)
        graphs.append(graph)
    if request.trace:
        _write_trace(Path(request.trace), timelines)
    origins: tuple[Origin, ...] = ()
    if len(graphs) > 1 and graphs[0] and graphs[1]:
        origins = joined((graphs[0], profiles[0].nodes), (graphs[1], profiles[1].nodes))
    shape = {name: tuple(array.shape) for name, array in largest.items()}
    return Answer(tuple(profiles), origins, _gflops(), _gbytes(), shape)


def _first_calls(request: Request, model: Model, smallest: Feeds, largest: Feeds) -> FirstCalls:
    started = time.perf_counter()
    with request.place.backend().open(model, request.place.target) as session:
        opened = 1e3 * (time.perf_counter() - started)
        first, again = _timed(session, smallest), _timed(session, smallest)
        same = all(smallest[name].shape == array.shape for name, array in largest.items())
        grown, settled = (0.0, again) if same else (_timed(session, largest), _timed(session, largest))
        return FirstCalls(opened, first, again, grown, settled)


def _timed(session: Session, feeds: Feeds) -> float:
    started = time.perf_counter()
    session.run(feeds)
    return 1e3 * (time.perf_counter() - started)


def _profiled(request: Request, model: Model, feeds: Feeds) -> tuple[Timeline, onnx.ModelProto | None]:
    """The times of nodes, and the graph that the runtime made of the model, where it writes one."""
    backend, target = request.place.backend(), request.place.target
    if backend.owner is not None:
        return _told(backend.profile(model, target, feeds, request.seconds), request), None
    with TemporaryDirectory(prefix="optim-profile-") as text:
        folder, graph = Path(text), Path(text) / "optimized.onnx"
        asked: dict[str, SessionValue] = {"enable_profiling": True, "profile_file_prefix": str(folder / "profile")}
        writing = SessionConfig(
            {"optimized_model_filepath": str(graph)},
            {
                "session.optimized_model_external_initializers_file_name": "weights.bin",
                "session.optimized_model_external_initializers_min_size_in_bytes": "1024",
            },
        )
        try:
            with backend.open(_with(model, writing), target):
                made = onnx.load(graph, load_external_data=False) if graph.is_file() else None
        except OptimError:  # a provider that compiles whole graphs cannot write theirs
            made = None
        with backend.open(_with(model, SessionConfig(asked)), target) as session:
            for _ in range(_WARM_UP):
                last = _timed(session, feeds)
            runs = int(min(_MOST_RUNS, max(_LEAST_RUNS, 1e3 * request.seconds / max(last, 1e-3))))
            for _ in range(runs):
                session.run(feeds)
        written = sorted(folder.glob("profile*.json"))
        if not written:
            raise _not_profiled(request)
        return read_timeline(written[0], _WARM_UP, runs, _weights(made) if made else {}), made


def _told(profile: NodeProfile | None, request: Request) -> Timeline:
    """What a runtime of its own says, with its nodes one after the other as events."""
    if profile is None:
        raise _not_profiled(request)
    nodes = tuple(NodeTime(one.name, one.operator, 1e3 * one.seconds, 0.0, 0.0, 0.0) for one in profile.nodes)
    ends = list(itertools.accumulate(node.ms for node in nodes))
    events = [
        {"name": node.name, "ph": "X", "tid": 0, "ts": 1e3 * (end - node.ms), "dur": 1e3 * node.ms}
        for node, end in zip(nodes, ends, strict=True)
    ]
    return Timeline(nodes, 1e3 * profile.run_s, min(1.0, (ends or [0.0])[-1] / (1e3 * profile.run_s)), events)


def _not_profiled(request: Request) -> OptimError:
    target = request.place.target
    return OptimError(
        "not-profiled",
        f"nothing is profiled on target {target.name}",
        f"backend {target.backend} does not say how long nodes take",
        "profile on another target: optim targets",
        status=ExitStatus.USAGE,
    )


def _weights(graph: onnx.ModelProto) -> dict[str, list[int]]:
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.graph.initializer}
    found = {node.name: [shapes[name] for name in node.input if name in shapes] for node in graph.graph.node}
    return {name: max(known, key=math.prod) for name, known in found.items() if known}


def _with(model: Model, settings: SessionConfig) -> Model:
    return replace(model, session=model.session.updated(settings))


def _write_trace(path: Path, timelines: list[Timeline]) -> None:
    events = [{**event, "pid": number} for number, timeline in enumerate(timelines, 1) for event in timeline.events]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


def _gflops() -> float:
    """Best of some products."""
    a = np.random.default_rng(0).standard_normal((_MATRIX, _MATRIX), dtype=np.float32)
    return 2e-9 * _MATRIX**3 / _best(lambda: a @ a)


def _gbytes() -> float:
    """Best of some copies, of what is read and written."""
    source = np.ones(_COPIED_BYTES // 4, np.float32)
    aim = np.empty_like(source)
    return 2e-9 * _COPIED_BYTES / _best(lambda: np.copyto(aim, source))


def _best(work: object) -> float:
    assert callable(work)
    times = []
    for _ in range(7):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return min(times)
