"""``optim layouts``: the layouts that a result can be written in for other programs."""

from __future__ import annotations

import click

from optim.cli_kit.output import echo, json_option, print_json, print_table


@click.command
@json_option
def layouts(as_json: bool) -> None:
    """List the layouts for --deliver and optim deliver: the form of a result for a program that is not optim."""
    from optim._engine.cli.described_options import describe_options
    from optim._engine.plugins.registry import load_registry

    rows = [
        {
            "name": name,
            "plugin": offer.plugin.name,
            "program": offer.value.consumer,
            "options": {row.name: row.default for row in describe_options(offer.value, offer.plugin)},
            "summary": offer.value.summary,
        }
        for name, offer in load_registry().offered("layout").items()
    ]
    if as_json:
        print_json({"layouts": rows})
    elif not rows:
        echo("no installed plugin has a layout; see: optim plugins list")
    else:
        print_table(
            ("layout", "plugin", "program", "options", "what it is"),
            [
                (
                    row["name"],
                    row["plugin"],
                    row["program"],
                    ", ".join(f"{k}={v!r}" for k, v in row["options"].items()),
                    row["summary"],
                )
                for row in rows
            ],
        )
