"""``optim web``: what is there for run folders of target web."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit import echo


@click.group()
def web() -> None:
    """Pages of models that run in a browser."""


@web.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any that is free")
def serve(folder: Path, port: int) -> None:
    """Show the page of a run folder in your browser, on this machine only."""
    from optim_prepost.web.serve import Served

    with Served(folder, port) as served:
        echo(f"{served.url} shows {folder}; Ctrl-C ends it")
        served.wait()
