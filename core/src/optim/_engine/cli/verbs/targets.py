"""``optim targets``: where models can run, and why not where they cannot."""

from __future__ import annotations

import click

from optim.cli_kit.output import echo, json_option, print_json, print_table


@click.command()
@json_option
def targets(as_json: bool) -> None:
    """List the targets. Column here says available, or why the target cannot be used on this machine."""
    from optim._engine.plugins.registry import load_registry

    registry = load_registry()
    offers = registry.offered("target").values()
    found = [(offer.value, offer.plugin, registry.unavailable(offer.value)) for offer in offers]
    if as_json:
        print_json(
            {
                "targets": [
                    {
                        "name": target.name,
                        "provider": target.provider,
                        "runtime": target.runtime,
                        "device": target.device,
                        "backend": target.backend,
                        "available": reason is None,
                        "reason": reason or "",
                        "timed": target.timed,
                        "requires": list(target.requires),
                        "plugin": plugin.name,
                        "package": plugin.package,
                        "version": plugin.version,
                    }
                    for target, plugin, reason in found
                ]
            }
        )
    elif not found:
        echo("no plugin adds a target; see: optim plugins list")
    else:
        rows = [
            (target.name, target.runs_on or target.backend, target.device, reason or "available", plugin.name)
            for target, plugin, reason in found
        ]
        print_table(
            ("target", "provider", "device", "here", "plugin"),
            rows,
            styles=["" if reason is None else "dim" for _, _, reason in found],
        )
