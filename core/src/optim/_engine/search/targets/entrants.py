"""Which targets take part in a run: one that fails costs itself alone, and its reason is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from optim._engine.gate.drift import NO_DRIFT, Drift
from optim._engine.plugins.chosen_targets import ChosenTargets
from optim._engine.plugins.registry import Registry
from optim._engine.search.plan import Plan, make_plan
from optim._engine.search.settings import RunSettings
from optim.errors import ExitStatus, OptimError
from optim.target import Target


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


class Plans:
    """What a run considers on each of its targets.

    Attributes:
        by_target: plans by the name of the target.
        refused: why others cannot do what the user asked for, by name.
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


def none_runs(failed: Mapping[str, OptimError], chosen: ChosenTargets) -> OptimError:
    """The error where no target runs the original: the one that all have in common, or all of them."""
    errors = list(failed.values())
    if len({error.reference for error in errors}) == 1 and not chosen.absent:
        return errors[0]
    reasons = {name: f"{error.what}: {error.cause}" for name, error in failed.items()}
    reasons |= chosen.absent
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
    absent = {} if chosen.auto else chosen.absent
    return found + [TargetOutcome(name, TargetStatus.ABSENT, why) for name, why in absent.items()]
