"""``optim run --dry-run``: the passes in order, and the reason for each place."""

from __future__ import annotations

from optim._engine.search.settings import RunSettings
from optim.cli_kit.output import echo, print_json, print_table


def print_plan(settings: RunSettings, *, as_json: bool) -> None:
    """Print what a run would consider; reads no model and runs nothing."""
    from optim._engine.plugins.registry import load_registry, require_target
    from optim._engine.search.plan import make_plan

    registry = load_registry()
    target = require_target(registry, settings.target, here=False)
    unavailable = registry.unavailable(target) or ""
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
