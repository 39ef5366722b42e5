"""The search of one run on several targets: each has its first looks, and the one that promises most goes on.

All of them are held against one baseline: the outputs of the original there are what is right, and the original there
is in every race, so that ratios of one target compare with those of another. Each target has a beam and a board
of its own: what makes one runtime fast says nothing of another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from optim._engine.gate.drift import NO_DRIFT, Drift, worst_drift
from optim._engine.plugins.chosen_targets import ChosenTargets
from optim._engine.search.explore.beam import Beam, NamedPassError
from optim._engine.search.front import beats
from optim._engine.search.measure.efforts import first_look
from optim._engine.search.measure.racing import Races, Wanted
from optim._engine.search.objective import Objective
from optim._engine.search.plan import Plan
from optim._engine.search.state import Candidate, Measured
from optim._engine.search.targets.entrants import Plans, TargetOutcome, TargetStatus, none_runs
from optim._engine.search.taste import DIFFER, SAME
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError

_NOT_LOOKED_AT = "the run ended before a candidate on this target was timed"

_NOT_TIMED = "the run ended before the original was timed on this target"


@dataclass
class Entrant:
    """A target on which the original runs, and what became of its search.

    Attributes:
        bench: the run on this target.
        plan: what is considered there.
        drift: of the original there to the baseline's outputs.
        objection: why that is more than rounding; candidates may hold all the same, within the budget.
        beam: its search, of those that a contest began with.
        promise: the best ratio to hope for after first looks, also of what does not hold yet.
        ranking: what held, best first.
        reason: why it had no more time, or was not proven.
        failed: whether it cannot take part.
    """

    bench: Workbench
    plan: Plan
    drift: Drift = NO_DRIFT
    objection: str = ""
    beam: Beam = field(init=False)
    promise: float = math.inf
    ranking: list[Measured] = field(default_factory=list)
    reason: str = ""
    failed: bool = False

    @property
    def name(self) -> str:
        """The name of its target."""
        return self.bench.target.name

    def fail(self, reason: str) -> None:
        """It cannot take part."""
        self.failed, self.reason, self.ranking = True, reason, []

    def leave(self) -> None:
        """There is no time to look at more of it than the original there."""
        self.beam.leave()
        self.reason, self.ranking = _NOT_LOOKED_AT, [self.beam.start] if not self.objection else []

    def row(self, *, delivered: bool) -> TargetOutcome:
        """The outcome on this target, for the report."""
        status = TargetStatus.FAILED if self.failed else TargetStatus.BEATEN
        start = self.beam.start
        right = [] if self.failed or self.objection else [start]
        proven = [point for point in self.beam.board.found if point.proven and point.within]
        ratios = [item.ratio for item in (*right, *self.ranking, *proven) if item.ratio is not None]
        return TargetOutcome(
            self.name,
            TargetStatus.DELIVERED if delivered else status,
            self.objection if delivered else self.reason or self.objection,
            self.bench.target,
            is_baseline=not self.bench.original.target,
            ratio=None if self.failed else start.ratio,
            interval=start.lane.ratio.interval if start.lane.ratio is not None else None,
            drift=self.drift,
            best_ratio=min(ratios, default=None),
            versions=self.bench.prepared.versions,
            requirements=self.bench.prepared.requirements,
        )


class Contest:
    """The search of one run on several targets.

    Args:
        entrants: the run on each of them.
    """

    def __init__(self, entrants: Sequence[Entrant]) -> None:
        bench = entrants[0].bench
        self._objective = Objective(bench.goal, timed=True, bounds=bench.settings.bounds)
        must = any(one.plan.forced() for one in entrants)
        races = not self._objective.is_size
        self._time = bench.deadline.of_search(bench.prepared, bench.settings.timeout_s, races=races, must=must)
        self.entrants = entrants
        for one in entrants:
            one.beam = Beam(one.bench, one.plan)

    def time_originals(self) -> None:
        """Time the original on each beside the baseline, in a few rounds; on the baseline its ratio is 1."""
        for one in self.entrants:
            if not one.bench.original.target:
                continue
            one.bench.say("timing the original against the baseline")
            effort = first_look(one.beam.time)
            base, (result,) = Races(one.bench).race([one.bench.original], effort, Wanted("original on a target"))
            if result.ratio is None:
                one.fail(result.failure or _NOT_TIMED)
                continue
            one.beam.board.objective.base = base
            one.beam.start = replace(one.beam.start, lane=result)
            if not one.objection:
                one.beam.board.explored([one.beam.start])

    def recalled(self) -> tuple[Entrant, list[Measured]] | None:
        """The target whose best won again that won in an earlier run, with what is to be proven; None: search all."""
        names, there = [one.name for one in self.entrants], [one for one in self.entrants if not one.failed]
        found = [(one, items) for one in there if (items := one.beam.recalled(names))]
        return min(found, key=lambda pair: pair[0].beam.board.figure(pair[1][0]), default=None)

    def end_with(self, winner: Entrant) -> None:
        """Have the other targets say that they were not searched, because what won before on this one won again."""
        for one in self.entrants:
            if one is not winner and not one.failed:
                one.beam.recall.skip(winner.beam.recall.why)
                one.reason = f"not searched: {winner.beam.recall.why}"

    def run(self) -> None:
        """Have all look, after :meth:`time_originals`, then search the one that promises most."""
        looking = [one for one in self.entrants if not one.failed]
        looking.sort(key=lambda one: one.beam.start.ratio or 1.0)  # where time is short the last may have none
        share_s = self._time.to_explore / max(1, len(looking))
        best = min((one.beam.start.ratio or 1.0 for one in looking), default=1.0)
        for one in looking:
            if best < 1 and one.beam.time.is_up and not one.plan.forced():
                one.leave()
                continue
            one.beam.time.explore(share_s)
            with self._on(one):
                one.promise = one.beam.look()
            best = min(best, one.promise)
        going = sorted((one for one in looking if not one.failed and not one.reason), key=lambda one: one.promise)
        leader: Entrant | None = None
        for one in going:
            if leader is not None:
                one.reason = (
                    f"after its first candidates optim expected {one.promise:.2f} at best, so {leader.name} went on"
                )
                one.ranking = self._held(one, one.beam.board.held())
                continue
            one.beam.time.explore(self._time.to_explore)
            with self._on(one):
                one.ranking = self._held(one, one.beam.search())
            leader = one if one.ranking else None  # where nothing held, the next one goes on

    def rows(self, delivered: Candidate | None, base: Workbench) -> list[TargetOutcome]:
        """What became of each, and of the baseline where that was not among them."""
        target = delivered.target if delivered is not None else None
        rows = [one.row(delivered=one.bench.original.target == target) for one in self.entrants]
        if not any(row.is_baseline for row in rows):
            status = TargetStatus.DELIVERED if target == "" else TargetStatus.BEATEN
            about = "it is only the baseline"
            row = TargetOutcome(base.target.name, status, about, base.target, is_baseline=True)
            libraries, needed = base.prepared.versions, base.prepared.requirements
            rows.append(replace(row, ratio=1.0, interval=(1.0, 1.0), versions=libraries, requirements=needed))
        return rows

    def bench_of(self, delivered: Candidate | None, base: Workbench) -> Workbench:
        """The run on the target that a candidate is for; ``base`` where nothing is delivered."""
        target = delivered.target if delivered is not None else ""
        return next((one.bench for one in self.entrants if one.bench.original.target == target), base)

    @property
    def order(self) -> list[Entrant]:
        """Those of which something held, the best first."""
        return sorted((one for one in self.entrants if one.ranking), key=self._best)

    def may_beat(self, one: Entrant, winner: Measured, of: Entrant) -> bool:
        """Whether the best of a target may be better than what was proven on another; else the reason is noted."""
        best, proven = self._best(one), of.beam.board.figure(winner)
        if best <= DIFFER * proven:
            return True
        if self._objective.is_latency:
            one.reason = one.reason or f"{best:.2f} at best in the search; {of.name} has {proven:.2f}"
        return False

    def is_better(self, one: tuple[Measured, Entrant], other: tuple[Measured, Entrant]) -> bool:
        """Whether a result is better than that of another target: by the goal, else by what the report compares."""
        figure, others = (of.beam.board.figure(item) for item, of in (one, other))
        if abs(figure - others) > SAME * others:
            return figure < others
        return beats(one[0], other[0])

    def _best(self, one: Entrant) -> float:
        """The best figure of what held on a target; infinite where nothing did, or a bound is broken."""
        best = next(iter(one.ranking), None)
        if best is None or one.beam.board.objective.excess(best):
            return math.inf
        return one.beam.board.figure(best)

    @contextmanager
    def _on(self, one: Entrant) -> Iterator[None]:
        """Has a target of which a named pass does not hold fail alone."""
        one.bench.teller.on_target(one.name)
        try:
            yield
        except NamedPassError as failed:
            one.fail(f"{failed.what}: {failed.cause}")

    def _held(self, one: Entrant, items: Sequence[Measured]) -> list[Measured]:
        """What may be delivered, best first: the original there only where it is right."""
        found = [item for item in items if item.candidate.steps or not one.objection]
        return one.beam.board.ranked(found)


def enter(base: Workbench, chosen: ChosenTargets, plans: Plans, failed: dict[str, OptimError]) -> list[Entrant]:
    """The targets on which the original runs; others are noted in ``failed``.

    Args:
        base: prepared, on the baseline.
        chosen: the targets.
        plans: what is considered on each.
        failed: why those that were tried before do not run it.

    Raises:
        OptimError[no-target-runs]: none of them runs it.
    """
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
    base.speak_for(base.target.name)
    return found
