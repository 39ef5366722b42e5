"""``optim passes``: what the installed plugins can do to a model."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from optim.cli_kit.names import PASS_NAME, TARGET_NAME
from optim.cli_kit.output import echo, json_option, print_fields, print_json, print_table
from optim.errors import unknown_name
from optim.passes import Stage

if TYPE_CHECKING:
    from optim._engine.plugins.survey import SurveyedPass


@click.group()
def passes() -> None:
    """List the passes, or show one."""


@passes.command("list")
@click.option("--stage", type=click.Choice([stage.value for stage in Stage]), help="Only the passes of this stage.")
@click.option("--target", "target_name", type=TARGET_NAME, help="Only the passes for this target.")
@json_option
def list_command(stage: str | None, target_name: str | None, as_json: bool) -> None:
    """List the passes in the order in which they run."""
    from optim._engine.plugins.ordering import order
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.survey import survey_passes

    registry = load_registry()
    if target_name is not None:
        registry.target(target_name)
    surveyed = sorted(survey_passes(registry), key=lambda item: item.running)
    for each in Stage:
        order(item.offered for item in surveyed if item.offered.stage is each)  # refuses passes that have no order
    found = [
        item
        for item in surveyed
        if (stage is None or item.offered.stage == stage) and (target_name is None or target_name in item.targets)
    ]
    if as_json:
        print_json({"passes": [_as_fields(item) for item in found]})
    elif not found:
        echo("no pass; see: optim plugins list")
    else:
        print_table(("pass", "stage", "role", "lossy", "summary"), [_row(item) for item in found])


@passes.command("show")
@click.argument("name", metavar="PASS", type=PASS_NAME)
@json_option
def show_command(name: str, as_json: bool) -> None:
    """Show one pass: its effect, requirements and options."""
    from optim._engine.cli.described_options import describe_options
    from optim._engine.plugins.registry import load_registry
    from optim._engine.plugins.survey import survey_passes

    registry = load_registry()
    known = {item.offered.name: item for item in survey_passes(registry)}
    if name not in known:
        registry.raise_if_lost("pass", name)
        raise unknown_name("pass", name, known, fix="optim passes list")
    item = known[name]
    options = describe_options(item.offered.pass_class, item.offered.plugin)
    if as_json:
        print_json({**_as_fields(item), "options": [asdict(option) for option in options]})
        return
    _print_pass(item)
    if options:
        echo("\noptions")
        rows = [(option.name, option.type, json.dumps(option.default), option.description) for option in options]
        print_table(("name", "type", "default", "description"), rows)


def _row(item: SurveyedPass) -> tuple[str, ...]:
    fields = _as_fields(item)
    lossy = "lossy" if fields["lossy"] else ""
    return fields["name"], fields["stage"], fields["role"] or "", lossy, fields["summary"]


def _print_pass(item: SurveyedPass) -> None:
    fields = _as_fields(item)
    missing = [f"{name} (not there)" for name in item.unresolved]
    print_fields(
        [
            ("pass", fields["name"]),
            ("summary", fields["summary"]),
            ("stage", fields["stage"]),
            ("role", fields["role"] or ""),
            ("lossy", {True: "yes, within the budget", False: "no, rounding error only", None: ""}[fields["lossy"]]),
            ("plugin", str(item.offered.plugin)),
            ("targets", ", ".join(item.targets)),
            ("before", ", ".join(fields["before"])),
            ("after", ", ".join(fields["after"])),
            ("unresolved", ", ".join(missing)),
            ("alternatives", fields["alternatives"] or ""),
            ("hardware", fields["hardware"] or "any"),
        ]
    )


def _as_fields(item: SurveyedPass) -> dict[str, Any]:
    offered, fields = item.offered, item.offered.pass_class
    role = getattr(fields, "role", None)
    return {
        "name": offered.name,
        "stage": str(offered.stage),
        "summary": fields.summary,
        "role": None if role is None else str(role),
        "lossy": getattr(fields, "lossy", None),
        "session_only": getattr(fields, "session_only", None),
        "before": list(fields.before),
        "after": list(fields.after),
        "unresolved": list(item.unresolved),
        "alternatives": getattr(fields, "alternatives", None),
        "hardware": getattr(fields, "hardware", ""),
        "targets": list(item.targets),
        "plugin": offered.plugin.name,
        "package": offered.plugin.package,
        "version": offered.plugin.version,
    }
