"""``optim help``: what an error means, and what a recipe can say, from what every installation has."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import click

from optim.cli_kit.output import echo, json_option, print_fields, print_json, print_table
from optim.errors import ExitStatus, unknown_name

if TYPE_CHECKING:
    from pydantic import BaseModel

_TOPICS = {
    "errors": "every error that optim can end with",
    "errors/NAME": "what one of them means, and what to do",
    "recipe": "every key of a recipe",
}


@click.command("help")
@click.argument("topic", required=False)
@json_option
@click.pass_context
def help(ctx: click.Context, topic: str | None, as_json: bool) -> None:  # noqa: A001 - the verb is called so
    """Tell about a TOPIC: errors, errors/NAME, or recipe. A command has its own help: optim COMMAND --help."""
    if topic is None:
        echo(ctx.find_root().get_help() + "\n\nTopics of optim help:")
        print_fields([(f"  {name}", about) for name, about in _TOPICS.items()])
    elif topic == "recipe":
        _print_rows(("key", "what it says"), _recipe_rows(), as_json=as_json)
    elif topic == "errors":
        known = _errors()
        _print_rows(("reference", "what"), [(name, known[name]["what"][0]) for name in sorted(known)], as_json=as_json)
    else:
        _print_error(topic, as_json=as_json)


def _print_error(topic: str, *, as_json: bool) -> None:
    known, (group, _, name) = _errors(), topic.partition("/")
    if group != "errors":
        meant = [f"errors/{topic}"] if topic in known else []
        raise unknown_name("topic", topic, [*_TOPICS, *meant], fix="optim help")
    if name not in known:
        raise unknown_name("error", name, known, fix="optim help errors")
    entry = known[name]
    if as_json:
        print_json({"reference": name, **entry})
        return
    statuses = [f"{status} ({ExitStatus(status).name.lower().replace('_', ' ')})" for status in entry["status"]]
    fields = [(name, ""), ("what", "\n".join(entry["what"])), ("fix", "\n".join(entry["fix"]))]
    print_fields([*fields, ("of", entry["about"]), ("status", ", ".join(statuses))])


def _errors() -> dict[str, dict[str, Any]]:
    """By reference; ``docs/make_errors.py`` writes the file from the source."""
    found: dict[str, dict[str, Any]] = json.loads(
        files("optim._engine.cli").joinpath("errors.json").read_text(encoding="utf-8")
    )
    return found


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
