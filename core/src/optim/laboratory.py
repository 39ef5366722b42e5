"""A model that was prepared to be looked at: its samples, where it runs, and what it computed.

:func:`optim.lab` makes a :class:`optim.Lab` of a model; a function of ``optim_after_run`` is given the lab of a run. A
job of a plugin, which has a process of its own, is told the lab's :class:`optim.LabSetup`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optim.model import Model

if TYPE_CHECKING:
    from optim._engine.gate.drift import OutputComparison


@dataclass(frozen=True, slots=True)
class LabModel:
    """A model in a lab: the original, a further file, or what a pass made.

    Attributes:
        name: the path, or the passes that made it.
        model: in the cache of optim.
        size_bytes: of graph and weights.
        drift: of the worst output from the original's, as the gate counts it; None until it is compared.
        outputs: each output beside the original's; empty until they are compared.
        changed: whether the last pass changed anything.
        notes: what the last pass said.
        seconds: that the last pass took, comparing included.
        target: name of the target that a run folder was made for, if it is another than the lab's.
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
    """Two models that were timed in turns.

    Attributes:
        ratio: latency of the second to that of the first; below 1 the second is faster.
        interval: of the ratio, 95 %; None for fewer than six rounds.
        latency_ms: of both, the median.
        rounds: that the ratio rests on.
    """

    ratio: float
    interval: tuple[float, float] | None
    latency_ms: tuple[float, float]
    rounds: int


@dataclass(frozen=True, slots=True)
class NodeTime:
    """The time of one node over all runs.

    Attributes:
        name: as the runtime calls it; its optimizers fuse and rename.
        operator: its type.
        ms: of a run, the mean of those that count: so they add up to what these take.
        flops: of a run: multiplications and additions of products and convolutions; 0 for others.
        moved_bytes: of a run: what it reads and writes.
        allocated_bytes: what it asked the runtime's memory for in a run, on balance.
        records: that the profiler makes in this time: one for each call, and one for each node of its body.
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
    """What a run of a model takes, node by node.

    Attributes:
        nodes: in the order of the runtime, without what the profiler takes.
        plain_ms: of a run without the profiler.
        run_ms: of a run with the profiler on.
        share: of a run with the profiler on that is in nodes, 0..1.
        record_ms: what the profiler takes for a record, which was taken off.
        events: as the profiler wrote them, of Chrome's trace format.
    """

    nodes: tuple[NodeTime, ...]
    plain_ms: float
    run_ms: float
    share: float
    record_ms: float
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class NodeSensitivity:
    """What a pass costs at one node, or at some neighbours together.

    Attributes:
        names: of the nodes.
        operators: their types.
        drift: of the model's outputs with just these converted; infinite where they overflow.
        share: of the costs of all, which add up in squares, 0..1.
        local: relative L2 at their own outputs, the worst; None where it was not replayed.
        work: share of the work of all, 0..1; None where it was not replayed.
    """

    names: tuple[str, ...]
    operators: tuple[str, ...]
    drift: float
    share: float
    local: float | None
    work: float | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What a lossy pass costs at every node that it can leave alone.

    Attributes:
        whole: drift with every node converted, measured.
        ground: drift with none.
        nodes: the costliest first.
        curve: for so many nodes left alone, the costliest first, the drift, at some points.
        estimated: whether drifts are estimates, but for the whole.
        note: why they are not, where that was asked for.
    """

    whole: float
    ground: float
    nodes: tuple[NodeSensitivity, ...]
    curve: tuple[tuple[int, float], ...]
    estimated: bool
    note: str = ""
