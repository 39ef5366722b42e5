"""Job: find which nodes a lossy pass must leave alone to keep the budget; every drift is measured in this process.

Sets are measured on a few samples, those on which the candidate was worst, of all that the gate compares; and in the
backend's quick session, if it has one. What is found is judged as the gate judges: on the target, on all samples. If it
does not hold there, the search goes on and aims at less.

Guesses that cost one evaluation each come first: every node in the precision between, where the pass has one, and the
nodes left alone that err most by themselves. Whatever holds is told at once, so that a repair whose time is over has
the best that it had measured, and not nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace

from optim._engine.jobs.candidate import Request as CandidateRequest
from optim._engine.jobs.job import Job
from optim._engine.repair.choose import (
    A_LITTLE,
    BY_COSTS,
    MOST_WORK_KEPT,
    SHARE_TO_LEARN,
    NodePrecisions,
    OutOfEvaluations,
    Prices,
    Question,
    Repair,
    choose,
)
from optim._engine.repair.costs import Costs, NodeCost, costs_of
from optim._engine.repair.pass_probe import PassProbe
from optim._engine.repair.replay import NoReplay, Replay, find_places
from optim.errors import OptimError
from optim.jobs.talk import Channel
from optim.jobs.wire import to_wire

_SHARE_TO_LOOK = 0.15
"""Of the time, for finding the worst samples."""

_CHECK_S = 5.0
"""Beyond the time, for measuring what was found on all samples."""

_GUESSED_SHARE = 0.8
"""Of the goal, that a guess from errors of single nodes aims at: it does not know what each does to the outputs."""

_FEW = 2
"""Evaluations. Estimates may take as long, whatever the time: of a BERT-base they took 28 s, and an evaluation 6. They
leave as many, because what nobody measured is no repair. With less time, what holds already is the answer."""

_EVALUATIONS_AT_ONCE = 160
"""Evaluations of a repair that only time bounds. If they find nothing, twice as many follow."""

HOLDS, COSTS, MEASURED = "holds", "costs", "measured"
"""Events: what was measured and holds, cheaper than all before it; what nodes cost, as far as it is known; that a set
was measured, with how many of how many nodes left alone, and how far it drifts."""


@dataclass(frozen=True, slots=True)
class Request:
    """A candidate that broke the budget.

    Attributes:
        candidate: the pass with its options, and what it is compared with; as many samples as it names are measured on.
        whole: its drift; may be infinite.
        limit: what it may be.
        evaluations: at most so many drifts are measured; None: as many as leave fewer nodes alone, while there is time.
        seconds: after which no further one is begun.
        costs: what nodes cost on another chain, by their names; empty where nobody knows.
    """

    candidate: CandidateRequest
    whole: float
    limit: float
    evaluations: int | None
    seconds: float
    costs: Mapping[str, NodeCost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What to keep, or None where nothing was found in time."""

    repair: Repair | None


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Search, with the pass and the backend loaded once."""
    deadline = time.monotonic() + request.seconds
    with ExitStack() as stack:
        probe = stack.enter_context(PassProbe(request.candidate))
        if not probe.nodes:
            return Answer(None)
        measured = _Measured(probe, request, deadline, channel, request.candidate.samples, chained=_chained(probe))
        try:
            return Answer(_repaired(measured, stack))
        except OptimError:
            if measured.best is None:
                raise
            return Answer(measured.best)


def _chained(probe: PassProbe) -> tuple[str, ...]:
    """Convolutions whose results stay integers for the next, in graph order.

    There are none for a pass that needs no samples: it finds ranges of activations while the model runs, of floats.
    """
    if not probe.calibrates:
        return ()
    return tuple(one.name for one in find_places(probe.request.model.ir(), probe.nodes) if one.operator == "Conv")


def _repaired(measured: _Measured, stack: ExitStack) -> Repair | None:
    probe = measured.probe
    known = Costs(measured.request.costs).elsewhere(probe.nodes, probe.refinable)
    whole = measured.look_for_the_worst() if known is not None else 0.0
    if known is not None and (found := _by_costs(measured, known, whole)) is not None:
        return found
    with suppress(OutOfEvaluations):
        if probe.refinable:
            measured.of_finer = measured.drift(frozenset(), probe.refinable)
    if measured.best is not None and measured.left_s < _FEW * measured.evaluation_s:
        return measured.best
    whole = whole or measured.look_for_the_worst()
    replay, costs = _replay(probe, measured.samples[:1], stack), None
    if replay is not None:
        measured.work = {name: error.work for name, error in replay.errors.items()}
        if not probe.refinable:
            _guess_by_errors(replay, measured, whole)
        costs = _costs(replay, measured, stack)
    found = _search_on(measured, costs, whole) or measured.best
    return found and replace(found, estimates=measured.estimates)


def _by_costs(measured: _Measured, known: Costs, whole: float) -> Repair | None:
    """What holds of the sets that costs of another chain propose, without any estimate here; None where none does."""
    request = measured.request
    measured.work = {name: cost.work for name, cost in request.costs.items() if cost.work > 0}
    return _search(measured, known, whole, _EVALUATIONS_AT_ONCE if request.evaluations is None else BY_COSTS)


def _search_on(measured: _Measured, costs: Costs | None, whole: float) -> Repair | None:
    """What :func:`_search` finds, with twice the evaluations as long as it finds nothing and there is time for more."""
    most = measured.request.evaluations or _EVALUATIONS_AT_ONCE
    while True:
        before = measured.count
        found = _search(measured, costs, whole, most)
        if found is not None or measured.best is not None or measured.left_s <= 0 or measured.count == before:
            return found
        most *= 2


def _search(measured: _Measured, costs: Costs | None, whole: float, most: int) -> Repair | None:
    """The cheapest set that ``most`` evaluations find in time and that holds where the gate judges; else None.

    While what is found does not hold there, less is aimed at.
    """
    limit, exhaustive = measured.request.limit, measured.request.evaluations is None
    evaluations, before, probe = 0, measured.count, measured.probe
    refinable, chained = frozenset(probe.refinable), measured.chained
    asked = Question(probe.nodes, refinable, measured.drift, whole, measured.work, chained, exhaustive)
    while measured.count - before < most:
        found = choose(asked, costs, measured.aim, most)
        if found is None:
            return None
        evaluations += found.evaluations + 1
        drift = max(found.drift, measured.judged(NodePrecisions(frozenset(found.keep), frozenset(found.finer))))
        if drift <= limit:
            rough = exhaustive and measured.left_s <= 0
            return replace(found, drift=drift, evaluations=evaluations, rough=rough)
        measured.aim *= limit / drift * (1 - A_LITTLE)
    return None


@dataclass
class _Measured:
    """Drifts of sets, each measured once on the same samples; what holds is told as it is found.

    Attributes:
        samples: that sets are measured on; the request's, until :meth:`look_for_the_worst` chooses others.
        work: how much each node computes, in any unit; empty as long as nobody knows.
        aim: what sets are searched for: below the limit, and less since what was found did not hold.
        best: the cheapest that holds where the gate judges, of those that were measured.
        chained: nodes that hand on what they make in the pass's precision, in graph order.
        evaluation_s: what measuring a set took at most.
        estimates: runs of the open model, on each sample, that told what nodes cost.
        of_finer: the drift with all nodes in the precision between that have one; infinite as long as nobody knows.
    """

    probe: PassProbe
    request: Request
    deadline: float
    channel: Channel
    samples: tuple[int, ...]
    work: Mapping[str, float] = field(default_factory=dict)
    chained: tuple[str, ...] = ()
    best: Repair | None = None
    evaluation_s: float = 0.0
    estimates: int = 0
    of_finer: float = math.inf
    aim: float = field(init=False)
    _best: NodePrecisions | None = None
    _known: dict[tuple[NodePrecisions, tuple[int, ...]], float] = field(default_factory=dict)
    _judged: dict[tuple[NodePrecisions, tuple[int, ...]], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.aim = self.request.limit * (1 - A_LITTLE)

    @property
    def count(self) -> int:
        """How many sets were measured."""
        return len(self._known)

    @property
    def left_s(self) -> float:
        """Seconds in which further sets may be begun."""
        return self.deadline - time.monotonic()

    def drift(self, keep: frozenset[str], finer: frozenset[str] = frozenset()) -> float:
        """The drift with some nodes left alone and others in the precision between.

        Raises:
            OutOfEvaluations: the time for it is over.
            OptimError: the pass or the runtime fails with this set.
        """
        choice = NodePrecisions(keep, finer)
        asked = choice, self.samples
        if asked in self._known:
            return self._known[asked]
        if self.left_s < 0:
            raise OutOfEvaluations
        began = time.monotonic()
        found: list[float] = []

        def samples() -> Iterator[int]:
            yield from self.samples
            self.evaluation_s = max(self.evaluation_s, time.monotonic() - began)
            if max(found) <= self.aim and not self.probe.is_estimate and self._is_cheapest(choice):
                yield from self._others

        for _, one in self.probe.drifts(keep, samples(), finer):
            found.append(one)
            if self.left_s + _CHECK_S < 0 and len(found) >= len(self.samples):
                break
        drift = self._known[asked] = max(found[: len(self.samples)])
        if len(found) > len(self.samples):
            self._judged[asked] = max(found)
        self.channel.event(MEASURED, keep=len(keep), of=len(self.probe.nodes), drift=drift)
        if drift <= self.aim and self._is_cheapest(choice):
            judged = max(drift, self.judged(choice))
            if judged <= self.request.limit:
                self._best = choice
                self.best = self._prices.repair(choice, judged, len(self._known), rough=True)
                self.channel.event(HOLDS, repair=to_wire(self.best))
        return drift

    @property
    def _others(self) -> list[int]:
        """Samples that the gate compares, and sets are not measured on."""
        compared = self.probe.request.comparison.reference.compared
        return [sample for sample in compared if sample not in self.samples]

    @property
    def _prices(self) -> Prices:
        return Prices(self.probe.nodes, self.work, self.chained)

    def _is_cheapest(self, choice: NodePrecisions) -> bool:
        """Whether a set gains something, and more than the best so far."""
        prices = self._prices
        if prices.share(choice.keep) > MOST_WORK_KEPT:
            return False
        return self._best is None or prices.cost(choice) < prices.cost(self._best)

    def look_for_the_worst(self) -> float:
        """Measure sets on the samples where the candidate drifts most from now on, the worst first; its drift there."""
        compared = self.request.candidate.comparison.reference.compared
        if len(compared) == 1:
            return self.request.whole
        until = time.monotonic() + _SHARE_TO_LOOK * self.request.seconds
        drifts: dict[int, float] = {}
        for sample, drift in self.probe.drifts((), compared):
            drifts[sample] = drift
            if time.monotonic() > until:
                break
        worst = sorted(drifts, key=lambda sample: (-drifts[sample], sample))
        others = (sample for sample in self.samples if sample not in drifts)
        self.samples = (*worst, *others)[: len(self.request.candidate.samples)]
        return max(self.request.whole, *(drifts[sample] for sample in self.samples if sample in drifts))

    def judged(self, choice: NodePrecisions) -> float:
        """The drift where the gate judges: on the target, on all samples that it compares.

        What was measured already is not measured again. It ends with the time for it, and with that drift so far.
        """
        asked = choice, self.samples
        if asked not in self._judged:
            samples = [*self.samples, *self._others] if self.probe.is_estimate else self._others
            worst = 0.0
            for _, drift in self.probe.drifts(choice.keep, samples, choice.finer, on_target=True) if samples else ():
                worst = max(worst, drift)
                if self.left_s + _CHECK_S < 0:
                    break
            self._judged[asked] = worst
        return self._judged[asked]


def _guess_by_errors(replay: Replay, measured: _Measured, whole: float) -> None:
    """Measure the set that the goal asks for if each node counts by the square of its own error."""
    known = Costs({name: NodeCost(error.relative**2, None, error.work) for name, error in replay.errors.items()})
    asked = Question(tuple(replay.errors), frozenset(), measured.drift, whole, measured.work, measured.chained)
    choose(asked, known, measured.request.limit * _GUESSED_SHARE, 1 + bool(replay.overflowing))


def _replay(probe: PassProbe, samples: Sequence[int], stack: ExitStack) -> Replay | None:
    """The nodes, replayed on samples; None where this is not possible, so that there are no estimates."""
    with suppress(NoReplay):
        return stack.enter_context(Replay(probe, samples, probe.refinable))
    return None


def _costs(replay: Replay, measured: _Measured, stack: ExitStack) -> Costs:
    """What each node costs, by runs of the open model; it is told, so that a repair that is stopped leaves it behind.

    A sample tells what nodes do to that sample, and the drift is that of the worst: so many samples are replayed as
    there is time for, the worst first.
    """
    seconds, each = measured.request.seconds, _seconds_of_a_run(replay)
    needed_s = each * (1 + len(replay.errors))
    most_s = _FEW * measured.evaluation_s
    if needed_s > most_s:
        most_s = SHARE_TO_LEARN * min(seconds, measured.left_s)
    count = min(len(measured.samples), int(most_s / needed_s))
    while count > 1:
        more = _replay(measured.probe, measured.samples[:count], stack)
        if more is not None:
            replay, each = more, _seconds_of_a_run(more)
            break
        count //= 2  # they take too much memory
    looks_s = measured.left_s - _FEW * max(each, measured.evaluation_s)
    until = time.monotonic() + min(looks_s, SHARE_TO_LEARN * seconds)
    ground, may_look = replay.drift(()), lambda _: time.monotonic() < until
    costs = costs_of(replay.errors, ground, lambda name: replay.drift((name,)), may_look).together(measured.of_finer)
    measured.estimates = replay.runs // max(1, count)
    measured.channel.event(COSTS, costs=to_wire(dict(costs.of)))
    return costs


def _seconds_of_a_run(replay: Replay) -> float:
    """What an estimate takes."""
    started = time.monotonic()
    replay.drift([name for name in replay.errors if name not in replay.overflowing])
    return max(1e-4, time.monotonic() - started)
