"""Results of a lab: a model with its samples, its target, and its outputs.

``optim.lab`` makes an ``optim.Lab`` from a model. A function of ``optim_after_run`` gets the lab of a run. A job of a
plugin in a process of its own gets the ``optim.LabSetup`` of the lab.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optim.model import Model

if TYPE_CHECKING:
    from optim._engine.gate.drift import OutputComparison


@dataclass(frozen=True, slots=True)
class LabModel:
    """A model in a lab: the original, a further file, or the result of a pass.

    Attributes:
        name: the path, or the passes that made the model.
        model: the model in the cache of optim.
        size_bytes: size of graph and weights.
        drift: drift of the worst output from the original; None: not compared yet.
        outputs: comparison of each output with the original; empty: not compared yet.
        changed: whether the last pass changed anything.
        notes: notes of the last pass.
        seconds: time of the last pass, with the comparison.
        target: name of the target of a run folder, if it is not the target of the lab.
    """

    name: str
    model: Model
    size_bytes: int
    drift: float | None = None
    outputs: tuple[OutputComparison, ...] = ()
    changed: bool = True
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    target: str = ""
    _candidate: Any = field(default=None, repr=False, compare=False)
    _place: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class LabTiming:
    """Times of two models, taken in turns.

    Attributes:
        ratio: latency of the second model, relative to the first; below 1 the second is faster.
        interval: 95 % interval of the ratio; None for fewer than six rounds.
        latency_ms: median latency of each.
        rounds: number of rounds.
    """

    ratio: float
    interval: tuple[float, float] | None
    latency_ms: tuple[float, float]
    rounds: int


@dataclass(frozen=True, slots=True)
class NodeTime:
    """Time of one node over all runs.

    Attributes:
        name: name, as the runtime gives it. Its optimizers fuse and rename nodes.
        operator: type of the node.
        ms: mean time in a run, over the runs that count. The times of all nodes add up to the time of a run in nodes.
        flops: multiplications and additions of products and convolutions in a run; 0 for other nodes.
        moved_bytes: bytes that the node reads and writes in a run.
        allocated_bytes: net memory that the node takes from the runtime in a run.
        records: records of the profiler in this time: one for each call, and one for each node of its body.
    """

    name: str
    operator: str
    ms: float
    flops: float
    moved_bytes: float
    allocated_bytes: float
    records: float = 1.0


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """Times of all nodes of a model.

    Attributes:
        nodes: nodes in the order of the runtime, without the cost of the profiler.
        plain_ms: time of a run without the profiler.
        run_ms: time of a run with the profiler on.
        share: share of a run with the profiler on that is spent in nodes, 0..1.
        record_ms: cost of the profiler for each record, which the times exclude.
        events: events of the profiler, in Chrome's trace format.
    """

    nodes: tuple[NodeTime, ...]
    plain_ms: float
    run_ms: float
    share: float
    record_ms: float
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NodeSensitivity:
    """Cost of a pass at one node, or at some neighbours together.

    Attributes:
        names: names of the nodes.
        operators: their types.
        drift: drift of the model's outputs if the pass converts only these nodes; infinite if they overflow.
        share: share of the costs of all nodes, which add up in squares, 0..1.
        local: worst relative L2 error of their own outputs; None: not replayed.
        work: share of the work of all nodes, 0..1; None: not replayed.
    """

    names: tuple[str, ...]
    operators: tuple[str, ...]
    drift: float
    share: float
    local: float | None
    work: float | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Cost of a lossy pass at every node that it can leave alone.

    Attributes:
        whole: measured drift if the pass converts every node.
        ground: drift if the pass converts no node.
        nodes: nodes, the costliest first.
        curve: drift by number of nodes left alone, the costliest first, at some points.
        estimated: whether the drifts are estimates, except ``whole``.
        note: reason why the drifts are not estimates, if you asked for estimates.
    """

    whole: float
    ground: float
    nodes: tuple[NodeSensitivity, ...]
    curve: tuple[tuple[int, float], ...]
    estimated: bool
    note: str = ""
