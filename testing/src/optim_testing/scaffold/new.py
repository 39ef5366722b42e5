"""``optim plugins new``: the package of a new plugin."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit import echo, json_option, print_json
from optim.passes import Stage

_STAGES = ("pre-export", "export", "fuse", "quantize", "convert-precision", "tune", "post-process")


@click.command("new")
@click.argument("name")
@click.option(
    "--stage",
    "stages",
    multiple=True,
    type=click.Choice(_STAGES),
    default=("fuse", "quantize"),
    show_default=True,
    help="Write a pass for this stage. Can be repeated.",
)
@click.option("--rule", is_flag=True, help="Write the pass for stage fuse as a rewrite rule, in ten lines.")
@click.option(
    "--target",
    type=click.Choice(["provider", "runtime"]),
    default="provider",
    show_default=True,
    help="Runtime of the models: a provider of onnxruntime, or a runtime of the plugin.",
)
@click.option(
    "--also",
    "extras",
    multiple=True,
    type=click.Choice(["metric", "command"]),
    help="Also write a metric or a command. Can be repeated.",
)
@click.option("--folder", type=click.Path(path_type=Path), help="Folder to write. [default: optim-plugin-NAME]")
@json_option
def new(
    name: str,
    stages: tuple[str, ...],
    rule: bool,
    target: str,
    extras: tuple[str, ...],
    folder: Path | None,
    as_json: bool,
) -> None:
    """Write the package of a new plugin called NAME: a target, working passes, and tests.

    The package installs and passes its tests as it is. Change it one file at a time.
    """
    from optim_testing.scaffold.package import write_package

    folder = folder or Path(f"optim-plugin-{name}")
    chosen = [Stage(stage) for stage in stages]
    own = target == "runtime"
    files = write_package(name, folder, chosen, own_runtime=own, rule=rule, extras=sorted(set(extras)))
    if as_json:
        print_json({"folder": str(folder), "files": [str(path) for path in files]})
        return
    for path in files:
        echo(f"  {folder / path}")
    echo(f"\nnext: pip install --editable '{folder}[test]' && pytest {folder}")
