"""``optim deliver``: the result of a run as another program opens it."""

from __future__ import annotations

from pathlib import Path

import click

from optim._engine.cli.layouts import how_options
from optim.cli_kit.names import LAYOUT_NAME
from optim.cli_kit.options import data_option
from optim.cli_kit.output import echo, json_option, print_json


@click.command
@click.argument("run_folder", type=click.Path(path_type=Path))
@click.option(
    "--as", "layout", required=True, type=LAYOUT_NAME, metavar="LAYOUT[:k=v,...]", help="Which; values are TOML."
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="A new folder.")
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
    """Lay the result in RUN_FOLDER out as another program opens it, have that open it, and compare.

    Where the program is not installed, what is written is marked as not opened. `optim plugins list --verbose` shows
    which layouts there are.
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
