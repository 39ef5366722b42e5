"""``optim web``: what is there for run folders of target web."""

from __future__ import annotations

from pathlib import Path

import click

from optim.cli_kit import echo


@click.group()
def web() -> None:
    """Show a model for target web in a browser."""


@web.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    metavar="N",
    help="Port; 0 takes any free one.",
)
def serve(folder: Path, port: int) -> None:
    """Serve the page of run folder DIR on this machine only, until Ctrl-C."""
    from optim_prepost.web.serve import ServedFolder

    with ServedFolder(folder, port) as served:
        echo(f"{served.url} shows {folder}; Ctrl-C ends it")
        served.wait()
