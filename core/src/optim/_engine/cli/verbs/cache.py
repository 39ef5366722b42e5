"""``optim cache``: show or prune what earlier runs left."""

from __future__ import annotations

import math

import click
from click.core import ParameterSource

from optim.cli_kit.output import echo, json_option, print_json, print_table
from optim.errors import OptimError


def _size(ctx: click.Context, param: click.Parameter, text: str) -> int:
    """The bytes in ``20GB``, ``500 MB`` or plain bytes."""
    from optim._engine.goals.bounds import parse_amount

    size = parse_amount(text, "B")
    if not size < math.inf:
        raise click.BadParameter(f"{text!r} is not a size; write 20GB, 500MB or bytes", ctx, param)
    return int(size)


@click.group
def cache() -> None:
    """Show or prune the cache: models, input samples, measurements, and what won in earlier runs."""


@cache.command
@json_option
def show(as_json: bool) -> None:
    """Show the path and the size of the cache, and the chains that won in earlier runs: new runs try them first."""
    from optim._engine.search.experience import read
    from optim._engine.store import Store
    from optim.jobs.wire import to_wire

    store = Store()
    known, damaged = read(store)
    if damaged:
        echo(f"warning: {damaged}", err=True)
    usage = store.usage()
    if as_json:
        shelves = {item.shelf: {"entries": item.entries, "size_bytes": item.size_bytes} for item in usage}
        size = sum(item.size_bytes for item in usage)
        print_json({"path": str(store.root), "size_bytes": size, "shelves": shelves, "experience": to_wire(known)})
        return
    echo(f"{store.root}")
    rows = [[item.shelf, str(item.entries), f"{item.size_bytes / 1e6:.1f}"] for item in usage]
    size = sum(item.size_bytes for item in usage)
    rows.append(["all", str(sum(item.entries for item in usage)), f"{size / 1e6:.1f}"])
    print_table(["what", "entries", "MB"], rows)
    if known:
        echo("")
        won = [[one.origin, f"{one.target}, {one.goal}", one.budget, one.text, f"{one.ratio:.2f}"] for one in known]
        print_table(["won on", "for", "budget", "passes", "ratio to the original"], won)


@cache.command
@click.option(
    "--max-size",
    callback=_size,
    default="20GB",
    show_default=True,
    metavar="SIZE",
    help="Size to keep: 20GB, 500MB or bytes. 0 empties the cache.",
)
@click.option(
    "--experience",
    is_flag=True,
    help="Delete what won in earlier runs, all of it and nothing else; without --max-size.",
)
@json_option
@click.pass_context
def prune(context: click.Context, max_size: int, experience: bool, as_json: bool) -> None:
    """Delete the least recently used entries until the cache fits --max-size.

    The command is refused during a run.
    """
    from optim._engine.store import Store

    if experience and context.get_parameter_source("max_size") is ParameterSource.COMMANDLINE:
        raise OptimError.usage(
            "conflicting-request",
            "--experience and --max-size exclude each other",
            "--experience deletes every record of what won, and --max-size says how much to keep",
            "leave one of the two out",
        )

    deleted, freed = Store().clear("experience") if experience else Store().prune(max_size)
    if as_json:
        print_json({"deleted": deleted, "freed_bytes": freed})
    else:
        echo(f"deleted {deleted} entries, {freed / 1e6:.1f} MB")
