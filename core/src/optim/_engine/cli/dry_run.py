"""``optim run --dry-run``: the passes in order, and the reason for each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optim._engine.search.settings import Named, RunSettings
from optim.cli_kit.output import echo, print_json, print_table

if TYPE_CHECKING:
    from optim._engine.plugins.registry import Registry
    from optim.target import Target


def print_plan(settings: RunSettings, *, as_json: bool) -> None:
    """Print what a run would consider; reads no model and runs nothing."""
    from optim._engine.plugins.registry import load_registry, require_target
    from optim._engine.search.plan import make_plan

    registry = load_registry()
    target = require_target(registry, settings.target, here=False)
    unavailable = registry.unavailable(target) or ""
    if settings.chain is not None:
        _print_chain(settings.chain, registry, target, as_json=as_json)
        return
    plan = make_plan(settings, registry, target)
    if as_json:
        considered = [
            {
                "stage": stage,
                "pass": planned.ordered.name,
                "role": planned.pass_class.role,
                "lossy": planned.pass_class.lossy,
                "forced": planned.forced,
                "reasons": list(planned.ordered.reasons),
            }
            for stage, passes in plan.stages.items()
            for planned in passes
        ]
        left_out = [{"pass": item.offered.name, "reason": item.reason} for item in plan.left_out]
        print_json({"target": target.name, "passes": considered, "left_out": left_out, "unavailable": unavailable})
        return
    rows = [
        [
            stage,
            planned.ordered.name,
            planned.pass_class.role + (", named" if planned.forced else ""),
            "; ".join(planned.ordered.reasons),
        ]
        for stage, passes in plan.stages.items()
        for planned in passes
    ]
    print_table(["stage", "pass", "role", "why here"], rows)
    if unavailable:
        echo(f"target {target.name} cannot be used on this machine: {unavailable}")
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
        echo("the lock has no passes: the original is what is repeated")
        return
    rows = [
        [str(place), offered.stage, offered.name, ", ".join(f"{key}={value}" for key, value in options.items())]
        for place, (offered, options) in enumerate(steps, start=1)
    ]
    print_table(["step", "stage", "pass", "options"], rows)
    echo("nothing else is tried: a lock is repeated and verified, not searched again")
