"""``optim help``: the help of a command, the meaning of an error, and the keys of a recipe."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

import click

from optim._engine.cli.commands import GROUPS
from optim.cli_kit.output import echo, json_option, print_fields, print_json, print_table
from optim.errors import ExitStatus, unknown_name
from optim.hooks import OWN_COMMANDS

if TYPE_CHECKING:
    from pydantic import BaseModel

    from optim._engine.cli.error_catalogue import ErrorEntry

_TOPICS = {
    "COMMAND": "the options of a command, e.g. optim help run",
    "errors": "all errors of optim",
    "errors/NAME": "what an error means, and how to fix it",
    "recipe": "all keys of a recipe",
}


@click.command("help")
@click.argument("topic", nargs=-1)
@json_option
@click.pass_context
def help(ctx: click.Context, topic: tuple[str, ...], as_json: bool) -> None:  # noqa: A001 - the verb is called so
    """Explain a command, an error (errors/NAME) or the keys of a recipe (recipe)."""
    name = " ".join(topic)
    if not topic:
        echo(ctx.find_root().get_help() + "\n\nTopics of optim help:")
        print_fields([(f"  {name}", about) for name, about in _TOPICS.items()])
    elif name == "recipe":
        _print_rows(("key", "meaning"), _recipe_rows(), as_json=as_json)
    elif name == "errors":
        known = _errors()
        _print_rows(("reference", "what"), [(name, _summary(known[name])) for name in sorted(known)], as_json=as_json)
    elif (command := _command(ctx.find_root(), topic)) is not None:
        echo(command.get_help())
    else:
        _print_error(name, as_json=as_json)


def _command(root: click.Context, words: Sequence[str]) -> click.Context | None:
    """The context of a command, such as ``("plugins", "install")``; None if there is no such command."""
    found = root
    for word in words:
        group = found.command
        command = group.get_command(found, word) if isinstance(group, click.Group) else None
        if command is None:
            return None
        found = click.Context(command, parent=found, info_name=word)
    return found


def _print_error(topic: str, *, as_json: bool) -> None:
    group, _, name = topic.partition("/")
    if group != "errors":
        meant = [f"errors/{topic}"] if _errors(topic) else []
        raise unknown_name(
            "topic",
            topic,
            ["errors", "errors/NAME", "recipe", *OWN_COMMANDS, *chain(*GROUPS.values()), *meant],
            fix="optim help",
        )
    entry = _errors(name).get(name)
    if entry is None:
        raise unknown_name("error", name, _errors(), fix="optim help errors")
    cases, statuses = entry.shown(), sorted(entry.statuses)
    if as_json:
        said = {"reference": name, "about": entry.about, "why": entry.why, "fix": entry.fix}
        print_json({**said, "cases": [{"what": what, "fix": fix} for what, fix in cases], "status": statuses})
        return
    named = ", ".join(f"{status} ({ExitStatus(status).name.lower().replace('_', ' ')})" for status in statuses)
    echo(name)
    print_fields([("why", entry.why), ("fix", entry.fix), ("part", entry.about), ("status", named)])
    for what, fix in cases:
        echo()
        print_fields([("what", what), ("fix", fix)])


def _summary(entry: ErrorEntry) -> str:
    return next((what for what, _ in entry.shown() if what), entry.fix)


def _errors(only: str = "") -> dict[str, ErrorEntry]:
    """The errors of what is installed, by reference; all, or the one of that name."""
    from optim._engine.cli.error_catalogue import catalogue, installed_packages

    return catalogue(installed_packages(), only)


def _recipe_rows() -> list[tuple[str, str]]:
    from optim._engine.recipes.recipe import BudgetTable, NamedPass, Recipe

    inside: dict[str, type[BaseModel]] = {"budget": BudgetTable, "passes": NamedPass}
    rows = []
    for name, field in Recipe.model_fields.items():
        if name in inside:
            table = f"[[{name}]]" if name == "passes" else f"[{name}]"
            parts = inside[name].model_fields.items()
            rows += [(f"{table} {part}", own.description or "") for part, own in parts]
        else:
            rows.append((name, field.description or ""))
    return rows


def _print_rows(columns: tuple[str, str], rows: list[tuple[str, str]], *, as_json: bool) -> None:
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, rows)
