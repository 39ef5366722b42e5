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
    refused = {name: f"{error.what}: {error.cause}" for name, error in plans.refused.items()}
    absent = {**chosen.absent, **refused}
    several = chosen.compete or bool(absent)
    found = {name: _considered(plan) for name, plan in plans.by_target.items()}
    if as_json and not several:
        (plan,) = found.values()
        print_json({"target": chosen.baseline.name, "goal": settings.goal, **plan, "unavailable": unavailable})
        return
    if as_json:
        targets = {name: {**plan, "unavailable": ""} for name, plan in found.items()}
        targets |= {name: {"passes": [], "left_out": [], "unavailable": reason} for name, reason in absent.items()}
        print_json({"baseline": chosen.baseline.name, "goal": settings.goal, "targets": targets})
        return
    for name, plan in found.items():
        if several:
            echo(f"target {name}{', the baseline' if name == chosen.baseline.name else ''}")
        _print(plan)
        if unavailable and not several:
            echo(f"target {name} cannot be used on this machine: {unavailable}")
        for item in plan["left_out"]:
            echo(f"left out: {item['pass']}: {item['reason']}")
        if several:
            echo("")
    for name, reason in absent.items():
        echo(f"target {name} is left out: {reason}")


def _considered(plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """Returns the passes of a plan in order, and those that are left out, as ``--json`` gives them."""
    passes = [
        {
            "stage": stage,
            "pass": planned.name,
            "role": planned.pass_class.role,
            "lossy": planned.pass_class.lossy,
            "forced": planned.forced,
            "reasons": list(planned.ordered.reasons),
        }
        for stage, planned_passes in plan.stages.items()
        for planned in planned_passes
    ]
    left_out = [{"pass": item.offered.name, "reason": item.reason} for item in plan.left_out]
    return {"passes": passes, "left_out": left_out}


def _print(plan: dict[str, list[dict[str, Any]]]) -> None:
    rows = [
        [one["stage"], one["pass"], one["role"] + (", named" if one["forced"] else ""), "; ".join(one["reasons"])]
        for one in plan["passes"]
    ]
    print_table(["stage", "pass", "role", "why here"], rows)


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
