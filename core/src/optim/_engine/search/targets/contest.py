"""The search of one run on its targets: each has its first looks, and the one that promises most goes on.

Most runs have one target. All targets are held against one baseline: the outputs of the original there are what is
right, and the original there is in every race, so that ratios of one target compare with those of another. Each target
has a beam and a board of its own: what makes one runtime fast says nothing of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from optim._engine.gate.drift import NO_DRIFT, Drift, worst_drift
from optim._engine.plugins.chosen_targets import ChosenTargets
from optim._engine.search.deadline import PROOF
from optim._engine.search.explore.beam import Beam, NamedPassError
from optim._engine.search.front import beats
from optim._engine.search.measure.clock import first_look
from optim._engine.search.measure.racing import Races
from optim._engine.search.plan import Plan
from optim._engine.search.select.selection import Selection
from optim._engine.search.state import ITSELF, Candidate, Measured
from optim._engine.search.targets.entrants import Plans, TargetOutcome, TargetStatus, none_runs
from optim._engine.search.taste import DIFFER, SAME
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError

_NOT_LOOKED_AT = "the run ended before a candidate on this target was timed"
_NOT_TIMED = "the run ended before the original was timed on this target"
_NO_BETTER = "no candidate is better than the baseline in the final timing"


@dataclass
class Entrant:
    """A target on which the original runs, and what became of its search.

    Attributes:
        drift: of the original there to the baseline's outputs.
        objection: why that is more than rounding; candidates may hold all the same, within the budget.
        beam: its search, and ``selection`` the end of that; of those that a contest began with.
        promise: the best ratio to hope for after first looks, also of what does not hold yet.
        ranking: what held, best first.
        reason: why it had no more time, or was not proven.
    """

    bench: Workbench
    plan: Plan
    drift: Drift = NO_DRIFT
    objection: str = ""
    beam: Beam = field(init=False)
    selection: Selection = field(init=False)
    promise: float = math.inf
    ranking: list[Measured] = field(default_factory=list)
    reason: str = ""
    failed: bool = False

    @property
    def name(self) -> str:
        """The name of its target."""
        return self.bench.target.name

    def decide(self, ranking: Sequence[Measured]) -> Measured | None:
        """The candidate that is better than the original on the baseline in the proof; None if there is none."""
        self.bench.say("deciding")
        return self.selection.decide(ranking)

    def figure(self, item: Measured) -> float:
        """The figure that is made small, for a model on this target."""
        return self.beam.board.figure(item)

    @property
    def best(self) -> float:
        """The best figure of what held; infinite where nothing did, or a bound is broken."""
        if not self.ranking or self.beam.board.objective.excess(self.ranking[0]):
            return math.inf
        return self.figure(self.ranking[0])

    def row(self, delivered: Candidate | None) -> TargetOutcome:
        """The outcome on this target, for the report."""
        is_delivered = delivered is not None and delivered.target == self.bench.original.target
        status = TargetStatus.FAILED if self.failed else TargetStatus.BEATEN
        start = self.beam.start
        right = [] if self.failed or self.objection else [start]
        proven = [point for point in self.beam.board.found if point.proven and point.within]
        ratios = [item.ratio for item in (*right, *self.ranking, *proven) if item.ratio is not None]
        return TargetOutcome(
            self.name,
            TargetStatus.DELIVERED if is_delivered else status,
            self.objection if is_delivered else self.reason or self.objection,
            self.bench.target,
            is_baseline=not self.bench.original.target,
            ratio=None if self.failed else start.ratio,
            interval=start.lane.ratio.interval if start.lane.ratio is not None else None,
            drift=self.drift,
            best_ratio=min(ratios, default=None),
            versions=self.bench.prepared.versions,
            requirements=self.bench.prepared.requirements,
        )


Winner = tuple[Measured, Entrant]
"""The result, and the target that it is for."""


class Contest:
    """The search of one run.

    Args:
        base: the run on the baseline.
        entrants: the run on each target that it can run on.
        competes: whether more than the baseline was asked for.
    """

    def __init__(self, base: Workbench, entrants: Sequence[Entrant], *, competes: bool = False) -> None:
        self.base, self.entrants, self.competes = base, entrants, competes
        for one in entrants:
            one.beam = Beam(one.bench, one.plan)
            one.selection = one.beam.selection()

    def winner(self) -> Winner | None:
        """Search on all targets; the best of what is proven to be better than the original on the baseline.

        Raises:
            TimingFailed: the baseline cannot be timed.
        """
        self._time_originals()
        first, best = self.entrants[0], None
        objective, original = first.beam.board.objective, Measured(self.base.original, ITSELF)
        is_best = objective.is_accuracy and not objective.objection(original)  # nothing is more accurate
        if is_best and not self.competes and not first.plan.forced():
            return None
        if (recalled := self._recalled()) is not None:
            one, items = recalled
            item = one.decide(items)
            best = (item, one) if item is not None else None
            if one.beam.recall.stands(item):
                self._end_with(one)
                return best
        self._search()
        for one in self._order():
            if best is not None and not _may_beat(one, *best):
                continue
            if (item := one.decide(one.ranking)) is None:
                one.reason = _NO_BETTER
            elif best is None or _is_better((item, one), best):
                best = item, one
        return best

    def _time_originals(self) -> None:
        """Time the original on each beside the baseline, in a few rounds; on the baseline its ratio is 1."""
        for one in self.entrants:
            if not one.bench.original.target:
                continue
            one.bench.say("timing the original against the baseline")
            effort = first_look(one.beam.time)
            base, (result,) = Races(one.bench).race([one.bench.original], effort)
            if result.ratio is None:
                one.failed, one.reason = True, result.failure or _NOT_TIMED
                continue
            one.beam.board.objective.base = base
            one.beam.start = replace(one.beam.start, lane=result)
            if not one.objection:
                one.beam.board.explored([one.beam.start])

    def _recalled(self) -> tuple[Entrant, list[Measured]] | None:
        """The target whose best won again that won in an earlier run, with what is to be proven; None: search all."""
        names = [one.name for one in self.entrants] if self.competes else []
        found = [(one, items) for one in self.entrants if not one.failed and (items := one.beam.recalled(names))]
        return min(found, key=lambda pair: pair[0].figure(pair[1][0]), default=None)

    def _end_with(self, winner: Entrant) -> None:
        """Have the other targets say that they were not searched, because what won before on this one won again."""
        for one in self.entrants:
            if one is not winner and not one.failed:
                one.beam.recall.skip(winner.beam.recall.why)
                one.reason = f"not searched: {winner.beam.recall.why}"

    def _search(self) -> None:
        """Have all look, then search the one that promises most."""
        looking = [one for one in self.entrants if not one.failed]
        looking.sort(key=lambda one: one.beam.start.ratio or 1.0)  # where time is short the last may have none
        share_s = max((one.beam.time.before(PROOF) for one in looking), default=0.0) / max(1, len(looking))
        best = min((one.beam.start.ratio or 1.0 for one in looking), default=1.0)
        for one in looking:
            if best < 1 and one.beam.time.is_up and not one.plan.forced():
                one.beam.leave()  # there is no time to look at more of it than the original there
                one.reason, one.ranking = _NOT_LOOKED_AT, [one.beam.start] if not one.objection else []
                continue
            with self._on(one, share_s):
                one.promise = one.beam.look()
            best = min(best, one.promise)
        going = sorted((one for one in looking if not one.failed and not one.reason), key=lambda one: one.promise)
        leader: Entrant | None = None
        for one in going:
            if leader is not None:
                one.reason = (
                    f"after its first candidates optim expected {one.promise:.2f} at best, so {leader.name} went on"
                )
                one.ranking = _right(one, one.beam.board.held())
                continue
            with self._on(one, one.beam.time.before(PROOF)):
                one.ranking = _right(one, one.beam.search())
            leader = one if one.ranking else None  # where nothing held, the next one goes on

    @contextmanager
    def _on(self, one: Entrant, seconds: float) -> Iterator[None]:
        """Give a target of several its seconds; have one of which a named pass does not hold fail alone."""
        if self.competes:
            one.bench.teller.on_target(one.name)
            one.beam.time.explore(max(0.0, seconds))
        try:
            yield
        except NamedPassError as failed:
            one.failed, one.reason, one.ranking = True, f"{failed.what}: {failed.cause}", []

    def _order(self) -> list[Entrant]:
        """Those of which something held, the best first."""
        return sorted((one for one in self.entrants if one.ranking), key=lambda one: one.best)

    @property
    def undecided(self) -> str:
        """The open question after the proof on the target that promised most; empty if there is none."""
        return next(filter(None, (one.selection.undecided for one in self._order())), "")

    @property
    def nearest(self) -> Entrant | None:
        """The target of which a verdict speaks that found nothing better; None if all of them failed."""
        left = sorted((one for one in self.entrants if not one.failed), key=lambda one: one.promise)
        return next((one for one in left if one.beam.board.beyond(1)), left[0] if left else None)

    def rows(self, delivered: Candidate | None) -> list[TargetOutcome]:
        """What became of each, and of the baseline where that was not among them."""
        rows = [one.row(delivered) for one in self.entrants]
        if not any(row.is_baseline for row in rows):
            target, prepared = self.base.target, self.base.prepared
            is_delivered = delivered is not None and not delivered.target
            row = TargetOutcome(
                target.name,
                TargetStatus.DELIVERED if is_delivered else TargetStatus.BEATEN,
                "it is only the baseline",
                target,
                is_baseline=True,
                ratio=1.0,
                interval=(1.0, 1.0),
                versions=prepared.versions,
                requirements=prepared.requirements,
            )
            rows.append(row)
        return rows

    def bench_of(self, delivered: Candidate | None) -> Workbench:
        """The run on the target that a candidate is for; on the baseline where nothing is delivered."""
        target = delivered.target if delivered is not None else ""
        return next((one.bench for one in self.entrants if one.bench.original.target == target), self.base)


def _may_beat(one: Entrant, winner: Measured, of: Entrant) -> bool:
    """Whether the best of a target may be better than what was proven; else the reason is noted."""
    proven = of.figure(winner)
    if one is of or one.best <= DIFFER * proven:
        return True
    if one.beam.board.objective.is_latency:
        one.reason = one.reason or f"{one.best:.2f} at best in the search; {of.name} has {proven:.2f}"
    return False


def _is_better(one: Winner, other: Winner) -> bool:
    """Whether a result is better than that of another target: by the goal, else by what the report compares."""
    figure, others = (of.figure(item) for item, of in (one, other))
    if abs(figure - others) > SAME * others:
        return figure < others
    return beats(one[0], other[0])


def _right(one: Entrant, items: Sequence[Measured]) -> list[Measured]:
    """The candidates that may be delivered, best first; the original on a target only if it is right there."""
    return one.beam.board.ranked([item for item in items if item.candidate.steps or not one.objection])


def enter(base: Workbench, chosen: ChosenTargets, plans: Plans, failed: dict[str, OptimError]) -> list[Entrant]:
    """The targets on which the original runs; ``failed`` takes why others do not, and knows those tried before."""
    budget = base.settings.budget(base.prepared.tolerance)
    found = []
    for target in chosen.targets:
        if target.name in failed or target.name not in plans.by_target:
            continue
        plan = plans.by_target[target.name]
        if target.name == base.target.name:
            found.append(Entrant(base, plan))
            continue
        try:
            answer = base.arrive(target)
        except OptimError as error:
            failed[target.name] = error
            continue
        objection = budget.objection(answer.comparisons, lossy=not target.exact).text
        bench = base.on(target, answer.versions, answer.requirements)
        found.append(Entrant(bench, plan, worst_drift(answer.comparisons), objection))
    if not found:
        raise none_runs(failed, chosen)
    if chosen.compete:
        base.speak_for(base.target.name)
    return found
