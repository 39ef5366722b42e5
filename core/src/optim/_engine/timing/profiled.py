"""A model run with its runtime's own profiler, and the graph that the runtime made of it."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from optim._engine.backends.held_session import HeldSession
from optim._engine.compare.place import Place
from optim._engine.timing.trace import Timeline, read_timeline
from optim.arrays import Feeds
from optim.backend import NodeProfile, Session
from optim.errors import OptimError
from optim.laboratory import NodeTime
from optim.model import Model, SessionConfig
from optim.onnx.backend import writing_optimized

_MOST_RUNS = 200


@dataclass(frozen=True, slots=True)
class Runs:
    """How often a model is run.

    Attributes:
        seconds: of runs that are timed, about.
        warm_up: runs before them.
        least: of them, at least.
        share: of them that is told of, the fastest; 0: the fastest one alone.
        most: of them, however short.
    """

    seconds: float
    warm_up: int = 3
    least: int = 5
    share: float = 0.5
    most: int = _MOST_RUNS

    def count(self, ms: float) -> int:
        """How many that is, where one takes so many milliseconds."""
        return int(min(self.most, max(self.least, 1e3 * self.seconds / max(ms, 1e-3))))


def profiled(
    place: Place, model: Model, feeds: Feeds, runs: Runs, weights: Mapping[str, list[int]] | None = None
) -> Timeline:
    """The times of nodes, with the runtime's optimizers on as the user has them.

    Args:
        place: where it runs.
        model: with its session settings.
        feeds: of every run.
        runs: how many.
        weights: shape of the largest weight of nodes, by name.

    Raises:
        OptimError[not-profiled]: the target's runtime says nothing of its nodes.
    """
    backend = place.backend()
    if backend.owner is not None:
        return _told(backend.profile(model, place.target, feeds, runs.seconds), place)
    with TemporaryDirectory(prefix="optim-profile-") as text:
        with watched(place, model, Path(text)) as session:
            last_ms = [run_ms(session, feeds) for _ in range(runs.warm_up)][-1]
            for _ in range(runs.count(last_ms)):
                session.run(feeds)
        return read_timeline(written_profile(place, Path(text)), range(runs.warm_up), runs.share, weights or {})


@contextmanager
def watched(place: Place, model: Model, folder: Path) -> Iterator[HeldSession]:
    """A session of ONNX Runtime with its profiler on; what it saw lies in ``folder`` when it is closed."""
    asked = SessionConfig({"enable_profiling": True, "profile_file_prefix": str(folder / "profile")})
    with place.backend().open(_with(model, asked), place.target) as session:
        yield session


def written_profile(place: Place, folder: Path) -> Path:
    """The file that a watched session left.

    Raises:
        OptimError[not-profiled]: the target's runtime writes none.
    """
    written = sorted(folder.glob("profile*.json"))
    if not written:
        raise _not_profiled(place)
    return written[0]


def executed_graph(place: Place, model: Model) -> onnx.ModelProto | None:
    """The graph that the runtime makes of a model, without its weights; None where it writes none."""
    if place.backend().owner is not None:
        return None
    with TemporaryDirectory(prefix="optim-profile-") as text:
        graph, writing = writing_optimized(Path(text))
        try:
            with place.backend().open(_with(model, writing), place.target):
                return onnx.load(graph, load_external_data=False) if graph.is_file() else None
        except OptimError:  # a provider that compiles whole graphs cannot write theirs
            return None


def largest_weights(graph: onnx.ModelProto) -> dict[str, list[int]]:
    """Shape of the largest weight that each node reads, by the node's name."""
    shapes = {tensor.name: list(tensor.dims) for tensor in graph.graph.initializer}
    found = {node.name: [shapes[name] for name in node.input if name in shapes] for node in graph.graph.node}
    return {name: max(known, key=math.prod) for name, known in found.items() if known}


def run_ms(session: Session, feeds: Feeds) -> float:
    """Milliseconds of one run."""
    started = time.perf_counter()
    session.run(feeds)
    return 1e3 * (time.perf_counter() - started)


def _told(profile: NodeProfile | None, place: Place) -> Timeline:
    """What a runtime of its own says, with its nodes one after the other as events."""
    if profile is None:
        raise _not_profiled(place)
    nodes = tuple(NodeTime(one.name, one.operator, 1e3 * one.seconds, 0.0, 0.0, 0.0) for one in profile.nodes)
    ends = list(itertools.accumulate(node.ms for node in nodes))
    events = [
        {"name": node.name, "ph": "X", "tid": 0, "ts": 1e3 * (end - node.ms), "dur": 1e3 * node.ms}
        for node, end in zip(nodes, ends, strict=True)
    ]
    return Timeline(nodes, 1e3 * profile.run_s, min(1.0, (ends or [0.0])[-1] / (1e3 * profile.run_s)), events)


def _not_profiled(place: Place) -> OptimError:
    return OptimError.usage(
        "not-profiled",
        f"nothing is profiled on target {place.target.name}",
        f"backend {place.target.backend} does not say how long nodes take",
        "profile on another target: optim targets",
    )


def _with(model: Model, settings: SessionConfig) -> Model:
    return replace(model, session=model.session.updated(settings))
