"""Job: where the time of some models goes, node by node, as ONNX Runtime's own profiler sees it.

Each model is opened twice: without the profiler for what runs cost, and with it for the times of nodes, with the
runtime's optimizers on as the user has them. Both run in turns, and what the profiler itself takes is taken off.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from optim import LabSetup
from optim.arrays import Feeds
from optim.backend import Session
from optim.jobs import Channel
from optim.laboratory import NodeTime, NodeTimes
from optim.model import Model
from optim_plugins.diagnose.graphs.couple import two_sizes
from optim_plugins.diagnose.graphs.cutting import OpenGraph
from optim_plugins.diagnose.graphs.matching import paired
from optim_plugins.diagnose.profile.origin import NodeOrigin, joined

_MATRIX = 768
"""Rows and columns of the product that the roofline is measured with: in cache, and long enough for all threads."""

_COPIED_BYTES = 64 << 20
"""Of the copy that it is measured with: beyond any cache."""

_MEASURED_S = 1.0
"""Of each: in the tenth of a second that seven products take, a busy machine gave 17 instead of 93 GFLOP/s."""


@dataclass(frozen=True, slots=True)
class Request:
    """Models to profile.

    Attributes:
        models: the first is what the others are joined with.
        setup: where they run; the smallest and the largest of its samples are used.
        seconds: for each model, about.
        trace: write a trace of all there; empty: none.
    """

    models: tuple[Model, ...]
    setup: LabSetup
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
        nodes: the dearest first, without what the profiler takes.
        run_ms: of a run with the profiler on, the mean of the faster half.
        plain_ms: the same without the profiler.
        share: of a run with the profiler on that is in nodes.
        record_ms: what the profiler takes for a record, which was taken off.
        first: what first calls cost.
    """

    nodes: tuple[NodeTime, ...]
    run_ms: float
    plain_ms: float
    share: float
    record_ms: float
    first: FirstCalls


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found.

    Attributes:
        models: in the order of the request.
        origins: of the first's and the second's nodes, by what they compute both; empty with one model.
        gflops: this machine's, of a product of float32 matrices, all threads.
        usual_gflops: the same of half of the products; much less than ``gflops`` if other programs took the processor.
        gbytes: its memory's per second, read and written by a copy.
        shape: of the sample that was run, by input.
    """

    models: tuple[Profile, ...]
    origins: tuple[NodeOrigin, ...]
    gflops: float
    usual_gflops: float
    gbytes: float
    shape: dict[str, tuple[int, ...]]


def run(request: Request, channel: Channel) -> Answer:
    """Profile one model after the other.

    Raises:
        OptimError[not-profiled]: the target's runtime writes no profile.
    """
    setup = request.setup
    sized = sorted(setup.samples, key=lambda number: sum(a.size for a in setup.sample(number).values()))
    smallest, largest = setup.sample(sized[0]), setup.sample(sized[-1])
    found, profiles, graphs = [], [], []
    for number, model in enumerate(request.models, 1):
        channel.event("progress", text=f"profiling model {number} of {len(request.models)}")
        graph = setup.executed_graph(model)
        profile, times = _profile(request, model, (smallest, largest), graph)
        profiles.append(profile)
        found.append(times)
        graphs.append(graph)
    if request.trace:
        _write_trace(Path(request.trace), found)
    origins: tuple[NodeOrigin, ...] = ()
    if len(graphs) > 1 and graphs[0] and graphs[1]:
        channel.event("progress", text="joining both models")
        pairs = _partners(request)
        origins = joined((graphs[0], profiles[0].nodes), (graphs[1], profiles[1].nodes), pairs)
    shape = {name: tuple(array.shape) for name, array in largest.items()}
    return Answer(tuple(profiles), origins, *_gflops(), _gbytes(), shape)


def _partners(request: Request) -> dict[str, str]:
    """Which value of the second model stands for which of the first; empty where both cannot be run value by value."""
    first, second = request.models[:2]
    samples = [request.setup.sample(number) for number in two_sizes(request.setup)]
    outputs = {info.name: info.name for info in first.outputs if info.name in {one.name for one in second.outputs}}
    try:
        graphs = [OpenGraph(model, request.setup) for model in (first, second)]
        return paired((graphs[0], samples), (graphs[1], samples), outputs).partner
    except Exception:  # a compiled program, or a graph that this runtime does not take apart: names remain
        return {}


def _profile(
    request: Request, model: Model, samples: tuple[Feeds, Feeds], graph: onnx.ModelProto | None
) -> tuple[Profile, NodeTimes]:
    """One model, on its smallest and its largest sample: what first calls cost, and the times of its nodes."""

    def first_calls(session: Session, opened_ms: float) -> FirstCalls:
        return _first_calls(session, opened_ms, *samples)

    found, first = request.setup.time_nodes(model, samples[1], request.seconds, first_calls, graph)
    nodes = tuple(sorted(found.nodes, key=lambda node: -node.ms))
    return Profile(nodes, found.run_ms, found.plain_ms, found.share, found.record_ms, first), found


def _first_calls(session: Session, opened_ms: float, smallest: Feeds, largest: Feeds) -> FirstCalls:
    first, again = _run_ms(session, smallest), _run_ms(session, smallest)
    if all(smallest[name].shape == array.shape for name, array in largest.items()):
        return FirstCalls(opened_ms, first, again, 0.0, again)
    return FirstCalls(opened_ms, first, again, _run_ms(session, largest), _run_ms(session, largest))


def _run_ms(session: Session, feeds: Feeds) -> float:
    started = time.perf_counter()
    session.run(feeds)
    return 1e3 * (time.perf_counter() - started)


def _write_trace(path: Path, found: list[NodeTimes]) -> None:
    events = [{**event, "pid": number} for number, times in enumerate(found, 1) for event in times.events]
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")


def _gflops() -> tuple[float, float]:
    """The rate of the fastest product, and of the median one."""
    a = np.random.default_rng(0).standard_normal((_MATRIX, _MATRIX), dtype=np.float32)
    times = _times(lambda: a @ a)
    work = 2e-9 * _MATRIX**3
    return work / min(times), work / statistics.median(times)


def _gbytes() -> float:
    """Best of some copies, of what is read and written."""
    source = np.ones(_COPIED_BYTES // 4, np.float32)
    aim = np.empty_like(source)
    return 2e-9 * _COPIED_BYTES / min(_times(lambda: np.copyto(aim, source)))


def _times(work: Callable[[], object]) -> list[float]:
    """Seconds of each call in a second: another program seldom takes the processor for so long without a break."""
    times: list[float] = []
    end = time.perf_counter() + _MEASURED_S
    while (started := time.perf_counter()) < end or not times:
        work()
        times.append(time.perf_counter() - started)
    return times
