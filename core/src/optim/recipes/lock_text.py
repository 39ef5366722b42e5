"""The lock as TOML, with comments for whoever opens it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.items import Table

if TYPE_CHECKING:
    from optim.recipes.lock import Lock, LockedPass

_ABOUT = {
    "source": "The original. Another one is another run.",
    "budget": "What the result is held to again: relative L2 of the worst output.",
    "feeds": "What the models are compared on; data is absent where the feeds are synthesized from the seed.",
    "versions": "With other versions the model may come out another; that is an error, never passed over.",
    "chain": "The passes, in order, with all their options; unset names those that are None.",
    "result": "What must come out: sha256 over graph, weights and session settings. The ratio is of its machine.",
}


def lock_text(lock: Lock) -> str:
    """The text of ``recipe.lock.toml``."""
    document = tomlkit.document()
    document.add(tomlkit.comment("Written by optim run. Repeat it, verified but not searched again:"))
    document.add(tomlkit.comment(f"optim run {lock.source.file} -o DIR --recipe recipe.lock.toml"))
    for key in ("version", "target", "goal", "seed"):
        document.add(key, getattr(lock, key))
    data = lock.model_dump(by_alias=True, exclude_none=True)
    for key in ("source", "budget", "feeds", "versions"):
        document.add(key, _table(data[key], _ABOUT[key]))
    if lock.chain:
        chain = tomlkit.aot()
        for number, step in enumerate(lock.chain):
            chain.append(_chain_table(step, "" if number else _ABOUT["chain"]))
        document.add("chain", chain)
    document.add("result", _table(data["result"], _ABOUT["result"]))
    return tomlkit.dumps(document).rstrip("\n") + "\n"


def _chain_table(step: LockedPass, about: str) -> Table:
    named = {"pass": step.pass_name, "plugin": step.plugin, "package": step.package, "version": step.version}
    table = _table({**named, **({"unset": step.unset} if step.unset else {})}, about)
    options = tomlkit.inline_table()
    options.update({name: _value(value) for name, value in step.options.items()})
    table.add("options", options)
    return table


def _table(values: Mapping[str, Any], about: str) -> Table:
    table = tomlkit.table()
    if about:
        table.add(tomlkit.comment(about))
    for key, value in values.items():
        table.add(key, _value(value))
    return table


def _value(value: Any) -> Any:
    """As TOML has it: lists for tuples, and no null inside of tables."""
    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update({key: _value(inner) for key, inner in value.items() if inner is not None})
        return table
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_value(inner) for inner in value]
    return value
