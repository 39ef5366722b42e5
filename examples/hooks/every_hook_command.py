"""The verb that ``every_hook`` adds."""

from __future__ import annotations

import click


@click.command
def every() -> None:
    """Say that it was called."""
    click.echo("every hook there is")
