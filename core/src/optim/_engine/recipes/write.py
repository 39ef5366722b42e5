"""Writes a lock as TOML that a person can read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.items import AoT, Table

from optim._engine.recipes.lock import Lock, LockedPass

_OPENING = """\
Written by optim: what was done to {file_name}, exactly. Keep it beside your code; do not edit it.
Make and verify the same model again, without searching:

    optim run {file_name} --recipe recipe.lock.toml -o run

A repetition must reach result.model_digest: graph, weights and session settings, as report.json names them.
"""


def write_lock(lock: Lock, path: Path) -> None:
    """Write ``lock`` to ``path``; the same lock gives the same bytes."""
    path.write_text(lock_text(lock), encoding="utf-8")


def lock_text(lock: Lock) -> str:
    """``lock`` as TOML with a comment on top; reading it gives an equal lock."""
    document = tomlkit.document()
    for line in _OPENING.format(file_name=lock.source.file_name).splitlines():
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document.add("goal", tomlkit.item(lock.goal))
    if lock.metric is not None:
        document.add("metric", tomlkit.item(lock.metric))
    values = lock.model_dump(mode="json", exclude_none=True)
    for name in ("lock", "source", "target", "budget", "feeds"):
        document.add(name, _table(values[name]))
    if lock.passes:
        document.add("passes", _passes(lock.passes))
    document.add("session", _table(values["session"]))
    document.add("result", _table(values["result"]))
    return tomlkit.dumps(document)


def _passes(passes: tuple[LockedPass, ...]) -> AoT:
    tables = tomlkit.aot()
    for locked in passes:
        values = locked.model_dump(mode="json")
        table = _table({key: value for key, value in values.items() if key != "options" and (value or key != "none")})
        options = tomlkit.inline_table()
        options.update(values["options"])
        table.add("options", options)
        tables.append(table)
    return tables


def _table(values: dict[str, Any]) -> Table:
    """A table; what is nested in it becomes a table of its own."""
    table = tomlkit.table()
    for key, value in values.items():
        table.add(key, _table(value) if isinstance(value, dict) else value)
    return table
