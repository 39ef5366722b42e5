"""``optim run --dry-run``: the passes in order, and the reason for each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from optim._engine.search.settings import Named, RunSettings
from optim.cli_kit.output import echo, print_json, print_table

if TYPE_CHECKING:
    from optim._engine.plugins.registry import Registry
    from optim._engine.search.plan import Plan
    from optim.target import Target


def print_plan(settings: RunSettings, *, as_json: bool) -> None:
    """Print what a run would consider, target by target; reads inputs and outputs of the model, and runs nothing."""
    from optim._engine.plugins.chosen_targets import choose_targets
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.found_goal import planned_goal
    from optim._engine.search.targets.entrants import Plans

    registry = load_registry()
    chosen = choose_targets(registry, settings.target, here=False)
    unavailable = registry.unavailable(chosen.baseline) or ""
    if settings.chain is not None:
        _print_chain(settings.chain, registry, chosen.targets[0], as_json=as_json)
        return
    settings, remark = planned_goal(settings, registry, timed=chosen.baseline.timed)
    if remark and not as_json:
        echo(remark)
    plans = Plans(settings, registry, chosen)
    absent = {one.name: one.reason for one in chosen.absent}
    absent |= {name: f"{error.what}: {error.cause}" for name, error in plans.refused.items()}
    if not chosen.compete and not absent:
        plan = plans.by_target[chosen.baseline.name]
        if as_json:
            target = {"target": chosen.baseline.name, "goal": settings.goal}
            print_json({**target, **_as_json(plan), "unavailable": unavailable})
            return
        _print(plan)
        if unavailable:
            echo(f"target {chosen.baseline.name} cannot be used on this machine: {unavailable}")
        _print_left_out(plan)
    elif as_json:
        several = {name: {**_as_json(plan), "unavailable": ""} for name, plan in plans.by_target.items()}
        several |= {name: {"passes": [], "left_out": [], "unavailable": reason} for name, reason in absent.items()}
        print_json({"baseline": chosen.baseline.name, "goal": settings.goal, "targets": several})
    else:
        for name, plan in plans.by_target.items():
            echo(f"target {name}{', the baseline' if name == chosen.baseline.name else ''}")
            _print(plan)
            _print_left_out(plan)
            echo("")
        for name, reason in absent.items():
            echo(f"target {name} is left out: {reason}")


def _as_json(plan: Plan) -> dict[str, Any]:
    considered = [
        {
            "stage": stage,
            "pass": planned.name,
            "role": planned.pass_class.role,
            "lossy": planned.pass_class.lossy,
            "forced": planned.forced,
            "reasons": list(planned.ordered.reasons),
        }
        for stage, passes in plan.stages.items()
        for planned in passes
    ]
    left_out = [{"pass": item.offered.name, "reason": item.reason} for item in plan.left_out]
    return {"passes": considered, "left_out": left_out}


def _print(plan: Plan) -> None:
    rows = [
        [
            stage,
            planned.name,
            planned.pass_class.role + (", named" if planned.forced else ""),
            "; ".join(planned.ordered.reasons),
        ]
        for stage, passes in plan.stages.items()
        for planned in passes
    ]
    print_table(["stage", "pass", "role", "why here"], rows)


def _print_left_out(plan: Plan) -> None:
    for item in plan.left_out:
        echo(f"left out: {item.offered.name}: {item.reason}")


def _print_chain(chain: Sequence[Named], registry: Registry, target: Target, *, as_json: bool) -> None:
    """Print the steps that a lock repeats.

    Raises:
        OptimError: a pass is not there, or does not know the options.
    """
    from optim.options import parse_options

    steps = []
    for named in chain:
        offered = registry.find_pass(named.name, target)
        parse_options(offered.pass_class, named.options or {})
        steps.append((offered, dict(named.options or {})))
    if as_json:
        listed = [
            {"stage": offered.stage, "pass": offered.name, "options": options, "plugin": offered.plugin.name}
            for offered, options in steps
        ]
        print_json({"target": target.name, "repeats": listed})
        return
    if not steps:
        echo("the lock has no passes: the run repeats the original")
        return
    rows = [
        [str(place), offered.stage, offered.name, ", ".join(f"{key}={value}" for key, value in options.items())]
        for place, (offered, options) in enumerate(steps, start=1)
    ]
    print_table(["step", "stage", "pass", "options"], rows)
    echo("nothing else is tried: a lock is repeated and verified, not searched again")
