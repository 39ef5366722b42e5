"""Job: which share of a model's multiplications each operator does, and on how many rows, counted in one run.

Shapes of values may be unknown before a model runs, and tell how often a weight is used: a product of one row uses it
once, a convolution at each place of the picture. The runtime's profiler notes them; its times are not looked at, so the
answer is the same on a busy machine.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from optim._engine.compare.place import Place
from optim._engine.feeds.feedset import FeedSet
from optim._engine.jobs.job import Job
from optim._engine.timing.profiled import largest_weights, profile_of
from optim.backend import Session
from optim.jobs.talk import Channel
from optim.laboratory import NodeTime
from optim.model import Model, SessionConfig
from optim.onnx.operators import weighing_operator
from optim.onnx.skeleton import read_skeleton

_AS_WRITTEN = SessionConfig({"graph_optimization_level": "ORT_DISABLE_ALL"})
"""No node is fused or laid out anew: operators are those of the model."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is run."""

    model: Model
    place: Place
    feeds: Path
    sample: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What was counted; empty where the runtime writes no profile of its own.

    Attributes:
        shares: of the multiplications, by operator, 0..1; a Gemm counts as a MatMul.
        rows: that a product with a weight has, by operator: the geometric mean, by multiplications.
    """

    shares: dict[str, float]
    rows: dict[str, float] = field(default_factory=dict)


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Run the model once, as it is written."""
    if request.place.backend().owner is not None:
        return Answer({})
    feeds = FeedSet.open(request.feeds).sample(request.sample)
    model = replace(request.model, session=request.model.session.updated(_AS_WRITTEN))
    weights = largest_weights(read_skeleton(model.path))

    def run_once(session: Session) -> tuple[int, ...]:
        session.run(feeds)
        return ()

    nodes = profile_of(request.place, model, run_once, 1.0, weights).nodes
    return Answer(_shares(nodes), _rows(nodes, weights))


def _shares(nodes: Iterable[NodeTime]) -> dict[str, float]:
    work: dict[str, float] = {}
    for node in nodes:
        operator = weighing_operator(node.operator)
        if operator and node.flops > 0:
            work[operator] = work.get(operator, 0.0) + node.flops
    total = sum(work.values())
    return {operator: flops / total for operator, flops in work.items()}


def _rows(nodes: Iterable[NodeTime], weights: Mapping[str, list[int]]) -> dict[str, float]:
    logs: dict[str, float] = defaultdict(float)
    work: dict[str, float] = defaultdict(float)
    for node in nodes:
        operator, elements = weighing_operator(node.operator), math.prod(weights.get(node.name, ()))
        if operator == "MatMul" and len(weights.get(node.name, ())) == 2 and node.flops > 0:
            rows = node.flops / node.records / (2 * elements)
            logs[operator] += node.flops * math.log(rows)
            work[operator] += node.flops
    return {operator: math.exp(logs[operator] / work[operator]) for operator in work}
