"""``optim metrics``: the task metrics there are, with their options."""

from __future__ import annotations

import inspect

import click

from optim.cli_kit.output import json_option, print_json, print_table


@click.command
@json_option
def metrics(as_json: bool) -> None:
    """List the task metrics for --metric, built-in and of plugins, with their options.

    A function of your own is named as package.module:function. It is called for each sample with outputs and labels,
    both by name, and returns a number; labels are the arrays of the feeds whose names begin with 'label'.
    """
    from optim._engine.metrics.find import factory_of
    from optim._engine.metrics.spec import BUILT_IN
    from optim._engine.plugins.registry import load_registry

    rows = [
        {"name": name, "from": "optim", "options": _options(inspect.signature(factory_of(name))), "summary": summary}
        for name, (_, summary) in BUILT_IN.items()
    ]
    for name, offer in load_registry().offered("metric").items():
        rows.append({"name": name, "from": offer.plugin.name, "options": {}, "summary": offer.value.summary})
    if as_json:
        print_json({"metrics": rows})
        return
    print_table(
        ["metric", "from", "options", "what it is"],
        [[str(row["name"]), str(row["from"]), _in_words(row["options"]), str(row["summary"])] for row in rows],
    )


def _options(signature: inspect.Signature) -> dict[str, object]:
    return {name: parameter.default for name, parameter in signature.parameters.items()}


def _in_words(options: object) -> str:
    assert isinstance(options, dict)
    return ", ".join(f"{name}={value!r}" for name, value in options.items())
