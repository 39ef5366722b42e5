"""Which targets take part in a run: one that fails costs itself alone, and its reason is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from optim._engine.gate.drift import NO_DRIFT, Drift, worst_drift
from optim._engine.plugins.chosen_targets import ChosenTargets
from optim._engine.plugins.registry import Registry
from optim._engine.search.plan import Plan, make_plan
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Measured
from optim._engine.search.workbench import Workbench
from optim.errors import ExitStatus, OptimError
from optim.target import Target

if TYPE_CHECKING:
    from optim._engine.search.explore.beam import Beam

_NOT_LOOKED_AT = "the run ended before a candidate on this target was timed"


class TargetStatus(StrEnum):
    """What became of one target of several."""

    DELIVERED = "delivered"
    BEATEN = "beaten"
    FAILED = "failed"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class TargetOutcome:
    """One target of several: a row of the report.

    Attributes:
        name: as the user wrote it.
        status: in a word.
        reason: in a sentence, where there is more to say than the figures do.
        target: None where it is not here.
        is_baseline: whether it is what all ratios are to.
        ratio: latency of the original there to the baseline's.
        interval: of the ratio, 95 %; None if it rests on too few rounds.
        drift: of the original there to the baseline's outputs.
        best_ratio: of the best that held there.
        versions: of the libraries that run it.
        requirements: what opens a result there needs, as pip takes it.
    """

    name: str
    status: TargetStatus
    reason: str = ""
    target: Target | None = None
    is_baseline: bool = False
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    drift: Drift = NO_DRIFT
    best_ratio: float | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[str, ...] = ()


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
            interval=start.timing.interval if start.timing is not None else None,
            drift=self.drift,
            best_ratio=min(ratios, default=None),
            versions=self.bench.prepared.versions,
            requirements=self.bench.prepared.requirements,
        )


class Plans:
    """What a run considers on each of its targets.

    Attributes:
        by_target: plans by the name of the target.
        refused: why others cannot do what the user asked for, by name.

    Raises:
        OptimError: none of them can; the first says why.
    """

    def __init__(self, settings: RunSettings, registry: Registry, chosen: ChosenTargets) -> None:
        self.by_target: dict[str, Plan] = {}
        self.refused: dict[str, OptimError] = {}
        offered = {one.name: {item.name for item in registry.offers(one)} for one in chosen.targets}
        somewhere = set().union(*offered.values())
        for target in chosen.targets:
            elsewhere = somewhere - offered[target.name]  # what is left out there is not offered here
            asked = replace(settings, without=tuple(name for name in settings.without if name not in elsewhere))
            try:
                self.by_target[target.name] = make_plan(asked, registry, target)
            except OptimError as error:
                self.refused[target.name] = error
        if not self.by_target:
            raise next(iter(self.refused.values()))


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


def none_runs(failed: Mapping[str, OptimError], chosen: ChosenTargets) -> OptimError:
    """The error where no target runs the original: the one that all have in common, or all of them."""
    errors = list(failed.values())
    if len({error.reference for error in errors}) == 1 and not chosen.absent:
        return errors[0]
    reasons = {name: f"{error.what}: {error.cause}" for name, error in failed.items()}
    reasons |= {one.name: one.reason for one in chosen.absent}
    return OptimError(
        "no-target-runs",
        "the original runs on none of the targets",
        "; ".join(f"{name}: {reason}" for name, reason in reasons.items()),
        f"--target {next(iter(failed))} alone shows why",
        errors[0].package if len({error.package for error in errors}) == 1 else "",
        ExitStatus.TARGET_UNAVAILABLE,
    )


def with_absent(
    rows: Sequence[TargetOutcome], chosen: ChosenTargets, failed: Mapping[str, OptimError]
) -> list[TargetOutcome]:
    """The rows, and those of the targets that did not take part; who said auto asked for those that are here.

    What did not take part and is the baseline has one row, with its reason in it.
    """
    targets = {target.name: target.plain for target in chosen.targets}
    reasons = {name: f"{error.what}: {error.cause}" if error.cause else error.what for name, error in failed.items()}
    found = [replace(row, reason=reasons.pop(row.name, row.reason)) for row in rows]
    found += [TargetOutcome(name, TargetStatus.FAILED, why, targets.get(name)) for name, why in reasons.items()]
    return found + [
        TargetOutcome(one.name, TargetStatus.ABSENT, one.reason) for one in chosen.absent if not chosen.auto
    ]
