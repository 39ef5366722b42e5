"""``optim metrics``: the task metrics there are, with their options."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import OptimError

if TYPE_CHECKING:
    from optim._engine.plugins.offers import Offer


@click.command
@json_option
def metrics(as_json: bool) -> None:
    """List the task metrics for --metric, with their plugins and options.

    --metric package.module:function names a function of yours. optim calls it for each sample with the outputs and the
    labels, both by name. The function returns a number. Labels are the arrays of a sample whose names begin with
    'label'.
    """
    from optim._engine.plugins.registry import load_registry

    offers = load_registry().offered("metric")
    rows = [
        {"name": name, "from": offer.plugin.name, "options": _options(offer), "summary": offer.value.summary}
        for name, offer in offers.items()
    ]
    if as_json:
        print_json({"metrics": rows})
    elif not rows:
        echo("no plugin brings a metric; in a clone of optim: pip install ./plugins")
    else:
        print_table(
            ["metric", "from", "options", "what it is"],
            [[row["name"], row["from"], _in_words(row["options"]), row["summary"]] for row in rows],
        )


def _options(offer: Offer) -> dict[str, object]:
    """Options with their defaults; those of a plugin whose class cannot be loaded are left out, and stderr says why."""
    from optim._engine.cli.described_options import describe_options
    from optim.metric import MetricFamily

    if not isinstance(offer.value, MetricFamily):
        return {}
    try:
        return {row.name: row.default for row in describe_options(offer.value, offer.plugin)}
    except OptimError as error:
        echo(str(error), err=True)
        return {}


def _in_words(options: dict[str, object]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
