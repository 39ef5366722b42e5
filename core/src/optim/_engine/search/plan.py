"""Which passes a run considers, stage by stage in order, and why others are left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from optim._engine.goals.bounds import require_bounds
from optim._engine.goals.known import find_goal
from optim._engine.plugins.offers import OfferedPass
from optim._engine.plugins.ordering import OrderedPass
from optim._engine.plugins.registry import Registry
from optim._engine.search.settings import RunSettings
from optim.errors import OptimError
from optim.goal import Basis
from optim.options import parse_options
from optim.passes import MODEL_STAGES, Pass, Role, Stage
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Planned:
    """A pass in its place.

    Attributes:
        forced: whether it must hold: the user named it, or the target requires it.
    """

    ordered: OrderedPass
    forced: bool
    is_named: bool

    @property
    def name(self) -> str:
        """The name of the pass."""
        return self.ordered.name

    @property
    def offered(self) -> OfferedPass:
        """The pass with its plugin."""
        return self.ordered.offered

    @property
    def why(self) -> str:
        """Why it must hold, to follow its name."""
        return "was asked for" if self.is_named else "is required by the target"

    @property
    def pass_class(self) -> type[Pass]:
        """Its class; planned passes are passes over models."""
        return self.ordered.offered.over_models


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A pass that this run does not consider.

    Attributes:
        not_here: whether that would be so for every model: no word of the user's against it, and no property of the
            model.
    """

    offered: OfferedPass
    reason: str
    not_here: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run considers.

    Attributes:
        stages: passes by stage, in order; a stage without any is absent.
    """

    stages: dict[Stage, tuple[Planned, ...]]
    left_out: tuple[LeftOut, ...]

    @property
    def passes(self) -> list[Planned]:
        """All of them, in order."""
        return [planned for passes in self.stages.values() for planned in passes]

    @property
    def names(self) -> list[str]:
        """Of all passes that are considered."""
        return [planned.name for planned in self.passes]

    def forced(self) -> list[Planned]:
        """Passes that must hold, in order."""
        return [planned for planned in self.passes if planned.forced]


def make_plan(settings: RunSettings, registry: Registry, target: Target) -> Plan:
    """Sort every pass on offer into considered and left out.

    Raises:
        OptimError[unknown-pass]: a named or excluded pass does not exist.
        OptimError[unknown-option]: a named pass has no such option.
        OptimError[conflicting-request]: a named pass cannot run with the other things asked for.
    """
    _require_named(settings, registry, target)
    stages: dict[Stage, tuple[Planned, ...]] = {}
    left_out: list[LeftOut] = []
    homeless = _homeless(registry)
    goal = find_goal(registry, settings.goal)
    require_bounds(goal, settings.bounds, () if target.timed else (target.name,))
    for stage in MODEL_STAGES:
        planned = []
        for ordered in registry.ordered(stage, target):
            required = ordered.name in target.requires and ordered.name not in settings.without
            named = settings.named_options(ordered.name) is not None
            forced = required or named
            reason = _reason_against(ordered.offered, stage, settings, forced)
            if not reason and not forced and goal.basis is Basis.SIZE and ordered.offered.over_models.session_only:
                reason = f"it only changes session settings, and they do not change the size (--goal {goal.name})"
            not_here = "" if reason or forced else _why_not_here(ordered.offered, settings, homeless)
            if reason and forced:
                raise _forced_and_not(ordered.name, reason, named=named)
            if reason or not_here:
                left_out.append(LeftOut(ordered.offered, reason or not_here, not_here=bool(not_here)))
            else:
                planned.append(Planned(ordered, forced, named))
        if planned:
            stages[stage] = tuple(_without_rivals_of_forced(planned, left_out))
    return Plan(stages, tuple(left_out))


def legs(plan: Plan) -> list[tuple[Stage, Sequence[Planned]]]:
    """Stages in order; settings are laid over settings, so each pass of the tune stage is a leg of its own."""
    found: list[tuple[Stage, Sequence[Planned]]] = []
    for stage, passes in plan.stages.items():
        parts = slots(passes) if stage is Stage.TUNE else [passes]
        found += [(stage, part) for part in parts]
    return found


def slots(passes: Iterable[Planned]) -> list[list[Planned]]:
    """Passes in order; those of one ``alternatives`` group stand in one slot, at the place of the first."""
    found: list[list[Planned]] = []
    groups: dict[str, list[Planned]] = {}
    for planned in passes:
        group = planned.pass_class.alternatives
        if group is not None and group in groups:
            groups[group].append(planned)
            continue
        found.append([planned])
        if group is not None:
            groups[group] = found[-1]
    return found


def _require_named(settings: RunSettings, registry: Registry, target: Target) -> None:
    """Refuse names of passes that nobody has, options that do not fit, and passes with nothing to do; as make_plan."""
    for name in sorted(settings.without):
        registry.find_pass(name, target)
    for named in settings.named:
        offered = registry.find_pass(named.name, target)
        options = None if named.options is None else parse_options(offered.pass_class, named.options)
        if issubclass(offered.pass_class, Pass) and options is None:
            offered.pass_class().refuse_without_options()
        elif issubclass(offered.pass_class, Pass):
            offered.pass_class().refuse(options, target)
        if offered.stage not in MODEL_STAGES and settings.export is None:
            raise OptimError.usage(
                "conflicting-request",
                f"{named.name} was asked for by name, but nothing is exported",
                f"{settings.source} is an ONNX model already",
                "leave it out, or give the source of the model instead",
            )


def _forced_and_not(name: str, reason: str, *, named: bool) -> OptimError:
    return OptimError.usage(
        "conflicting-request",
        f"{name} {'was asked for by name' if named else 'is required by the target'}, but {reason}",
        "both cannot hold",
        fix="leave one of the two out" if named else f"leave out what excludes it, or the pass: --without {name}",
    )


def _reason_against(offered: OfferedPass, stage: Stage, settings: RunSettings, forced: bool) -> str:
    pass_class = offered.over_models
    if offered.name in settings.without:
        return "left out by --without"
    if settings.stages and stage not in settings.stages and not forced:
        return f"stage {stage} is not in --stage"
    if settings.lossless and pass_class.lossy:
        return "it is lossy, and --lossless excludes it"
    return ""


def _why_not_here(offered: OfferedPass, settings: RunSettings, homeless: Collection[str]) -> str:
    """Why a pass that nobody named is considered for no model."""
    goals = offered.over_models.goals
    if goals and not {settings.goal, *(bound.figure for bound in settings.bounds)} & set(goals):
        return f"it is for --goal {' or '.join(goals)}"
    if offered.over_models.role is Role.REQUESTED:
        return "it only runs if --with names it"
    if offered.plugin.name in homeless:
        return f"its plugin has no environment yet: optim plugins install {offered.plugin.name}"
    return ""


def _homeless(registry: Registry) -> set[str]:
    """Isolated plugins whose environment was not made."""
    from optim.isolation.environments import find_environment

    isolated = {
        plugin.info.name: isolation
        for plugin in registry.plugins
        if (isolation := getattr(plugin.implementation, "OPTIM_ISOLATED", None))
    }
    return {name for name, isolation in isolated.items() if find_environment(isolation) is None}


def _without_rivals_of_forced(planned: list[Planned], left_out: list[LeftOut]) -> list[Planned]:
    """A forced pass excludes the other passes of its group."""
    forced = {p.pass_class.alternatives: p for p in planned if p.forced and p.pass_class.alternatives}
    kept = []
    for candidate in planned:
        rival = forced.get(candidate.pass_class.alternatives or "")
        if rival is None or rival is candidate:
            kept.append(candidate)
        elif candidate.forced:
            raise OptimError.usage(
                "conflicting-request",
                f"{rival.name} and {candidate.name} exclude each other",
                f"both are of the group '{candidate.pass_class.alternatives}'",
                "keep one of them",
            )
        else:
            left_out.append(LeftOut(candidate.offered, f"{rival.name} {rival.why}, and they exclude each other"))
    return kept
