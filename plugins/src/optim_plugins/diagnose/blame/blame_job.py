"""Job: the nodes whose inputs agree and whose outputs do not, in a model that is held against another.

Values of both are paired (``graphs/matching.py``). The other model is cut at every pair, and each part of it is given
what the reference's is given, so that an error is seen where it is made and nowhere after. A part is suspected that is
off by more than its precision explains (``expected.py``), and blamed if its error, put into the reference alone, moves
the outputs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from optim import LabSetup
from optim.errors import ExitStatus, OptimError
from optim.jobs import Channel
from optim.model import Model
from optim.onnx import qualified_name
from optim_plugins.diagnose.blame.find import find_blamed
from optim_plugins.diagnose.blame.found import Blamed, Neighbourhood, finite
from optim_plugins.diagnose.blame.neighbourhood import neighbourhood, node_name
from optim_plugins.diagnose.graphs.couple import Couple
from optim_plugins.diagnose.graphs.cutting import read_by

_WITHIN_ROUNDING = 1e-5
"""Drift of outputs below which nothing is looked for: other kernels of the same operator are that far apart."""


@dataclass(frozen=True, slots=True)
class Request:
    """Two models, and what they are run on.

    Attributes:
        reference: that is right.
        other: that is held against it.
        setup: where both are run; two of its samples of different sizes are used.
        names: of the other model's inputs and outputs, by the reference's, where they differ.
        tolerance: drift of rounding alone.
    """

    reference: Model
    other: Model
    setup: LabSetup
    names: dict[str, str]
    tolerance: float


@dataclass(frozen=True, slots=True)
class Steepest:
    """Where the error of the running models grows most; no blame, for its precision may explain it.

    Attributes:
        value: of the other model.
        node: that makes it, as :func:`node_name` calls it.
        operator: its type.
        before: relative L2 of the worst value that the node reads.
        after: of what it makes.
    """

    value: str
    node: str
    operator: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found.

    Attributes:
        blamed: whichever moves the outputs most first; empty where nothing stands out.
        drift: of the worst output; None where one is lost.
        outputs: of each.
        values: tensors of the other model that depend on feeds.
        matched: how many of them were paired in which way.
        ambiguous: those that several of the reference's are like.
        growth: of paired values in graph order, relative L2 with everything before them as the other model has it.
        notes: what could not be compared, and why.
        near: the graph around the first that is blamed, else around where the error grows most.
        steepest: where the error grows most; None where it grows nowhere by more than rounding.
    """

    blamed: tuple[Blamed, ...]
    drift: float | None
    outputs: dict[str, float | None]
    values: int
    matched: dict[str, int]
    ambiguous: dict[str, tuple[str, ...]]
    growth: tuple[tuple[str, float | None], ...]
    notes: tuple[str, ...]
    near: Neighbourhood
    steepest: Steepest | None


def run(request: Request, channel: Channel) -> Answer:
    """Pair, cut, replay, and try what is suspected alone.

    Raises:
        OptimError[no-common-tensor]: not one value inside is the same in both.
    """
    channel.event("progress", text="pairing the values of both models")
    couple = Couple((request.reference, request.other), request.setup, request.names)
    drift = max(couple.outputs.values(), default=0.0)
    blamed: list[Blamed] = []
    if drift > max(10 * request.tolerance, _WITHIN_ROUNDING):
        _require_something_in_common(couple)
        channel.event("progress", text=f"replaying {len(couple.cuts)} values, each given the reference's")
        blamed = find_blamed(couple, drift)
    steepest = _steepest(couple)
    return Answer(
        blamed=tuple(blamed),
        drift=finite(drift),
        outputs={name: finite(gap) for name, gap in couple.outputs.items()},
        values=len(couple.other.values),
        matched=dict(Counter(couple.pairs.how.values())),
        ambiguous=couple.pairs.ambiguous,
        growth=tuple((name, finite(gap)) for name, gap in couple.growth.items()),
        notes=tuple(couple.notes),
        near=_near(couple, blamed, steepest),
        steepest=steepest,
    )


def _near(couple: Couple, blamed: Sequence[Blamed], steepest: Steepest | None) -> Neighbourhood:
    """What a drawing shows: the first blamed part and what is beside it; all of a small graph."""
    other = couple.other
    if blamed:
        return neighbourhood(other.graph, other.values, [one.nodes for one in blamed], couple.growth)
    middle: list[Collection[str]] = [{steepest.node} if steepest else ()]
    near = neighbourhood(other.graph, other.values, middle, couple.growth)
    return replace(near, nodes=tuple(replace(node, blamed=False) for node in near.nodes))


def _steepest(couple: Couple) -> Steepest | None:
    before = {name: max(_before(couple, name), default=0.0) for name in couple.growth}
    steps = {name: gap - before[name] for name, gap in couple.growth.items() if math.isfinite(before[name])}
    worst = max(steps, key=lambda name: steps[name], default="")
    producer = couple.other.values[worst].producer() if worst in couple.other.values else None
    if producer is None or not _WITHIN_ROUNDING < steps[worst] < math.inf:
        return None
    operator = qualified_name(producer.domain, producer.op_type)
    return Steepest(worst, node_name(producer), operator, before[worst], couple.growth[worst])


def _before(couple: Couple, name: str) -> list[float]:
    """Errors of what the node reads that makes a value."""
    producer = couple.other.values[name].producer()
    return [couple.growth[read.name] for read in read_by(producer) if read.name in couple.growth] if producer else []


def _require_something_in_common(couple: Couple) -> None:
    inside = [name for name, how in couple.pairs.how.items() if how != "output"]
    if inside or len(couple.other.values) <= len(couple.outputs):
        return
    raise OptimError(
        "no-common-tensor",
        "the models have no value in common but their inputs and outputs",
        f"of {len(couple.other.values)} values of the second model none has the name, the scope or the content of one"
        " of the first",
        "compare models that were made of the same source",
        status=ExitStatus.BAD_INPUT,
    )
