"""``optim deliver``: the result of a run as another program opens it."""

from __future__ import annotations

from pathlib import Path

import click

from optim._engine.cli.layouts import OLD_NAMES, how_options
from optim.cli_kit.commands import OptimCommand
from optim.cli_kit.names import LAYOUT_NAME
from optim.cli_kit.options import data_option
from optim.cli_kit.output import echo, json_option, print_json


@click.command(
    cls=OptimCommand,
    old_names={"--as": "--layout", **OLD_NAMES},
    examples=("optim deliver out --layout optimum -o encoder --files MiniLM --python ~/service/.venv/bin/python",),
)
@click.argument("run_folder", type=click.Path(path_type=Path))
@click.option(
    "--layout",
    required=True,
    type=LAYOUT_NAME,
    metavar="LAYOUT[:k=v,...]",
    help="Layout to write; optim layouts lists them. Values are TOML.",
)
@click.option(
    "-o", "--output", required=True, type=click.Path(path_type=Path), help="Folder to write; it must not exist."
)
@how_options
@data_option
@json_option
def deliver(
    run_folder: Path,
    layout: str,
    output: Path,
    files: Path | None,
    opened_by: Path | None,
    data: str | None,
    as_json: bool,
) -> None:
    """Write the result in RUN_FOLDER for another program, open it with that program, and compare the outputs.

    If the program is not installed, the result is marked as not opened.

    Exit status 0: the layout was written; 2: this result has no such layout; 4: the program cannot open the layout, or
    computes something else, and optim deletes the layout again.
    """
    from optim._engine.plugins.registry import load_registry
    from optim._engine.runs.layouts.asked import ask
    from optim._engine.runs.layouts.deliver import deliver as deliver_result
    from optim.cli_kit.live_lines import progress

    registry = load_registry()
    asked = ask(registry, [layout], files, opened_by)
    with progress() as say:
        report = deliver_result(run_folder, asked, output, registry, say, data)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    echo(report.line)
    echo(f"folder  {output}")
