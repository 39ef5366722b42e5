"""The verb ``optim acme``."""

from __future__ import annotations

import click


@click.command
def acme():
    """Say which device there is."""
    click.echo("Acme One, no firmware to update")
