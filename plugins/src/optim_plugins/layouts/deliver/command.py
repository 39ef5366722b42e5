"""``optim deliver``: the result of a run as another program opens it; ``optim layouts``: which programs there are."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit import LAYOUT_NAME, OptimCommand, data_option, echo, json_option, print_json, print_table
from optim.engine.layouts import how_options


@click.command(
    cls=OptimCommand,
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
    from optim.cli_kit import progress
    from optim.engine.layouts import LayoutRequest, load_registry
    from optim_plugins.layouts.deliver.delivery import OpenedAndCompared

    asked = LayoutRequest((layout,), files, opened_by)
    with progress() as say:
        report = OpenedAndCompared().deliver(load_registry(), asked, run_folder, output, say, data)
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    echo(report.line)
    echo(f"folder  {output}")


@click.command
@json_option
def layouts(as_json: bool) -> None:
    """List the layouts for --deliver and optim deliver: the form of a result for a program that is not optim."""
    from optim.engine.layouts import describe_options, load_registry

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
