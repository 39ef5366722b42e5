"""Job: what a lossy pass costs at each node, estimated by replaying or measured by applying it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from optim._engine.graphs.node_lookup import no_such_node, unknown_nodes
from optim._engine.jobs.candidate import Request as CandidateRequest
from optim._engine.jobs.job import Job
from optim._engine.repair.choose import GROUPS, Unit, find_units
from optim._engine.repair.pass_probe import PassProbe, does_nothing
from optim._engine.repair.replay import NoReplay, Replay, find_places
from optim.errors import ExitStatus, OptimError
from optim.jobs.talk import Channel
from optim.laboratory import NodeSensitivity, Sensitivity

_CURVE_POINTS = 24
_SHARE_TO_COSTS = 0.8


@dataclass(frozen=True, slots=True)
class Request:
    """A pass on a model, and how to measure it.

    Attributes:
        candidate: the pass with its options, and what it is compared with.
        replayed: the samples to estimate on.
        exact: apply the pass for every figure, instead of estimating by replaying.
        seconds: about how long; where that is too short for every node, neighbours are measured together.
    """

    candidate: CandidateRequest
    replayed: tuple[int, ...]
    exact: bool
    seconds: float


JOB = Job(__name__, Request, Sensitivity)


def run(request: Request, channel: Channel) -> Sensitivity:
    """Measure, with the pass and the backend loaded once.

    Raises:
        OptimError[not-applicable]: the pass does nothing for this model.
        OptimError[unknown-node]: its option ``keep`` names one that the model does not have.
        OptimError[nothing-to-measure]: the pass says of no node of this model that it can leave it alone.
        OptimError: the pass fails, or the runtime refuses what it makes.
    """
    with ExitStack() as stack:
        probe = stack.enter_context(PassProbe(request.candidate))
        applicable = probe.applicable()
        if not applicable.yes:
            raise does_nothing(request.candidate, applicable.reason)
        for name, near in unknown_nodes(request.candidate.model, request.candidate.options.get("keep", ())).items():
            raise no_such_node(name, near, request.candidate.name, "the model")
        if not probe.nodes:
            raise OptimError(
                "nothing-to-measure",
                f"{request.candidate.name} cannot leave single nodes of this model as they are",
                "it has nothing to convert here, or converts all or nothing",
                "optim passes list",
                status=ExitStatus.BAD_INPUT,
            )
        channel.event("progress", text="measuring the whole")
        whole = probe.drift((), request.candidate.samples)
        replay, note = None, ""
        if not request.exact:
            try:
                replay = stack.enter_context(Replay(probe, request.replayed))
            except NoReplay as reason:
                note = f"measured by applying the pass, not estimated: {reason}"
        channel.event("progress", text=f"{'estimating' if replay else 'measuring'} {len(probe.nodes)} nodes")
        return _measured(probe, replay, whole, note, request.seconds)


def _measured(probe: PassProbe, replay: Replay | None, whole: float, note: str, seconds: float) -> Sensitivity:
    everything = frozenset(probe.nodes)

    def applied(converted: frozenset[str]) -> float:
        return probe.drift(everything - converted, probe.request.samples)

    overflowing = replay.overflowing if replay else []
    known = [name for name in probe.nodes if name not in overflowing and (not replay or name in replay.errors)]
    drift_of: Callable[[frozenset[str]], float] = replay.drift if replay else applied
    started = time.monotonic()
    ground = drift_of(frozenset())
    each = max(1e-4, time.monotonic() - started)
    probes = max(GROUPS + 1, int(_SHARE_TO_COSTS * seconds / each))
    units = find_units(known, drift_of, len(known) if probes > len(known) else GROUPS, probes)
    units = [*(Unit((name,), math.inf) for name in overflowing), *units]
    units.sort(key=lambda unit: -unit.cost)
    steps = min(_CURVE_POINTS, max(2, int((1 - _SHARE_TO_COSTS) * seconds / each)), len(units))
    # places from 0 to the number of units, denser at the beginning, where the curve is steep
    points = sorted({round(len(units) * (i / max(1, steps)) ** 1.7) for i in range(steps + 1)})
    curve = tuple(_curve(units, known, drift_of, points))
    operators = {place.name: place.operator for place in find_places(probe.request.model.ir(), probe.nodes)}
    return Sensitivity(whole, ground, tuple(_described(units, replay, operators)), curve, replay is not None, note)


def _curve(
    units: Sequence[Unit], known: Sequence[str], drift_of: Callable[[frozenset[str]], float], points: Sequence[int]
) -> list[tuple[int, float]]:
    """Drift against how many nodes are left alone."""
    found = []
    for point in points:
        kept = {name for unit in units[:point] for name in unit.names}
        overflows = any(math.isinf(unit.cost) for unit in units[point:])
        found.append((len(kept), math.inf if overflows else drift_of(frozenset(known) - kept)))
    return found


def _described(units: Sequence[Unit], replay: Replay | None, operators: Mapping[str, str]) -> list[NodeSensitivity]:
    total = sum(unit.cost for unit in units if math.isfinite(unit.cost)) or 1.0
    errors = replay.errors if replay else {}
    work = sum(error.work for error in errors.values()) or 1.0
    found = []
    for unit in units:
        inside = [errors[name] for name in unit.names if name in errors]
        found.append(
            NodeSensitivity(
                unit.names,
                tuple(dict.fromkeys(operators[name] for name in unit.names if name in operators)),
                math.sqrt(unit.cost),
                unit.cost / total if math.isfinite(unit.cost) else 1.0,
                max((error.relative for error in inside), default=None),
                sum(error.work for error in inside) / work if inside else None,
            )
        )
    return found
