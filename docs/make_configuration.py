"""The text of the pages that describe files and settings: configuration, and the fields of ``report.json``.

Both are read from docstrings and schemas of the code; ``make_pages.py`` writes the pages when the site is built.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from make_errors import PACKAGES
from page_text import attributes_of, cell, inline, paragraphs
from pydantic import BaseModel

_MARK = "Environment variable: "
"""Begins the docstring of a constant that names a variable for users."""


def page() -> str:
    """Returns the page of configuration."""
    from optim._engine import recipes
    from optim._engine.feeds import named
    from optim._engine.recipes.lock import Lock
    from optim._engine.recipes.recipe import Recipe
    from optim.errors import ExitStatus

    meanings = attributes_of(inspect.getdoc(ExitStatus) or "")
    parts = [
        _INTRODUCTION,
        "## Input samples",
        paragraphs(inspect.getdoc(named) or ""),
        "## Exit status",
        _table("status", [(str(status.value), meanings[status.name]) for status in ExitStatus]),
        "## Environment variables",
        _table("variable", sorted((f"`{name}`", about) for name, about in variables())),
        "Command-line options override environment variables.",
        "## Recipes and locks",
        paragraphs(inspect.getdoc(recipes) or ""),
        "### A recipe",
        _file(Recipe),
        "### A lock",
        _file(Lock),
    ]
    return "\n\n".join(parts) + "\n"


def report_fields() -> str:
    """Returns the page of the fields of ``report.json``."""
    from optim._engine.reports.schema import Report

    return f"{_REPORT_INTRODUCTION}\n\n{_keys(Report, 'field', 'serialization')}\n"


def variables() -> Iterator[tuple[str, str]]:
    """Yields each environment variable for users with its meaning."""
    for folder in PACKAGES.values():
        for path in sorted(folder.rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            body = ast.parse(text).body if _MARK in text else []
            for node, about in pairwise(body):
                if isinstance(node, ast.Assign) and isinstance(about, ast.Expr):
                    meaning = str(getattr(about.value, "value", ""))
                    if meaning.startswith(_MARK):
                        yield ast.literal_eval(node.value), inline(_capital(meaning.removeprefix(_MARK)))


def _file(model: type[BaseModel]) -> str:
    """Describes a file: the docstring of its class, which may have an example, and its keys."""
    example = paragraphs(inspect.getdoc(model) or "")
    return f"{example}\n\n{_keys(model, 'key', 'validation')}"


def _keys(model: type[BaseModel], kind: str, mode: Any) -> str:
    schema = model.model_json_schema(by_alias=True, mode=mode)
    return _table(kind, [(f"`{path}`", about) for path, about in _fields(schema, schema["$defs"], "")])


def _fields(node: Mapping[str, Any], named: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for inner in (node, node.get("items", {}), *node.get("anyOf", ())):
        found = named[inner["$ref"].rpartition("/")[2]] if "$ref" in inner else inner
        attributes = attributes_of(found.get("description", ""))
        for name, value in found.get("properties", {}).items():
            yield f"{path}{name}", _about(value, named) or attributes.get(name, "")
            yield from _fields(value, named, f"{path}{name}.")


def _about(value: Mapping[str, Any], named: Mapping[str, Any]) -> str:
    """Returns the meaning of a field; by default the first sentence of its class."""
    if about := value.get("description"):
        return str(about)
    kinds = [one["$ref"] for one in (value, value.get("items", {}), *value.get("anyOf", ())) if "$ref" in one]
    return str(named[kinds[0].rpartition("/")[2]].get("description", "")).partition("\n")[0] if kinds else ""


def _table(kind: str, rows: list[tuple[str, str]]) -> str:
    return "\n".join([f"| {kind} | meaning |", "|---|---|", *(f"| {name} | {cell(about)} |" for name, about in rows)])


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] if text[:1].isalpha() and not text.startswith("optim ") else text


_INTRODUCTION = """# Configuration, recipes and locks

The forms of input samples, the exit statuses, the environment variables, and the keys of recipes and locks, read from
the source. For options see [The command line](command-line.md), for switches that allow code see [Trust](trust.md)."""

_REPORT_INTRODUCTION = """# Fields of report.json

Every field, by its path. A part of a list has the path of the list: `steps.pass` is the pass of each step. A figure
that does not exist or is not finite is null. [Reading a report](reading-a-report.md) explains the figures."""
