"""``optim pick``: another result of an earlier run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from optim._engine.cli.request import layout_options, layouts_of
from optim._engine.cli.verbs.run import deliver_point
from optim.cli_kit.names import POINT_NAME
from optim.cli_kit.options import OptimCommand
from optim.cli_kit.output import json_option


@click.command(
    cls=OptimCommand, examples=("optim pick out smallest -o small", "optim pick out 2", "optim pick out max-size=50MB")
)
@click.argument("run_folder", type=click.Path(path_type=Path))
@click.argument("point", type=POINT_NAME)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Run folder to write. [default: RUN_FOLDER]")
@layout_options
@click.option("--verbose", is_flag=True, help="Print every candidate with its reason.")
@json_option
def pick(run_folder: Path, point: str, output: Path | None, verbose: bool, as_json: bool, **words: Any) -> int:
    """Deliver another result of the run in RUN_FOLDER, without running anything again.

    POINT is fastest, smallest, most-accurate, or a number of report.html. Limits such as max-size=50MB take the most
    accurate result within them. The run proved every one of these results.
    """
    return deliver_point(run_folder, point, output or run_folder, layouts_of(words), as_json=as_json, verbose=verbose)
