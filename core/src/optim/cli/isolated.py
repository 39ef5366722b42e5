"""``optim plugins install`` and ``remove``: the environments of isolated plugins."""

from __future__ import annotations

import click

from optim.cli.names import PLUGIN_NAME
from optim.cli.output import json_option, print_fields, print_json


@click.command()
@click.argument("name", type=PLUGIN_NAME)
@click.option("--python", default="", metavar="PATH", help="Interpreter to make it with; the running one by default.")
@json_option
def install(name: str, python: str, as_json: bool) -> None:
    """Make the environment that an isolated plugin needs; an interrupted install is continued."""
    from optim.errors import ExitStatus, OptimError
    from optim.isolation.install import install_environment
    from optim.plugins.registry import load_registry

    isolation = getattr(load_registry().plugin(name).implementation, "OPTIM_ISOLATED", None)
    if isolation is None:
        raise OptimError(
            "not-isolated", f"plugin {name} runs in optim's own environment", "it needs no other",
            f"optim plugins show {name}", status=ExitStatus.USAGE,
        )  # fmt: skip
    if not as_json:
        click.echo(f"making the environment of {name}: {', '.join(isolation.requirements)}", err=True)
    made = install_environment(isolation, python)
    fields = {
        "plugin": name, "folder": str(made.folder), "python": made.python, "requirements": list(made.requirements),
        "size_bytes": made.size_bytes,
    }  # fmt: skip
    if as_json:
        print_json(fields)
    else:
        print_fields([
            ("plugin", name), ("folder", str(made.folder)), ("python", made.python),
            ("size", f"{made.size_bytes / 1e6:.0f} MB"),
        ])  # fmt: skip


@click.command()
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Delete the environment of an isolated plugin, also of one that is no longer installed."""
    from optim.errors import unknown_name
    from optim.isolation.environments import environments_folder, remove_environment

    folder = environments_folder()
    known = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if name not in known:
        raise unknown_name("environment", name, known)
    remove_environment(name)
    if as_json:
        print_json({"removed": name})
    else:
        click.echo(f"removed the environment of {name}")
