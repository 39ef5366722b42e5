"""Options of passes, metrics and layouts: pydantic classes, found and built only when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from optim.errors import OptimError, unknown_name


class PassOptions(BaseModel):
    """Base of every options class: immutable, unknown keys refused, every field described with its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoOptions(PassOptions):
    """For a pass that has nothing to choose."""


class HasOptions(Protocol):
    """What has options: the class of a pass, of an exporter or of a layout, or a metric's family."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    @property
    def options(self) -> str | type[PassOptions]:
        """The class of its options, or ``package.module:Class``."""


def options_class(owner: HasOptions) -> type[PassOptions]:
    """The options class of a pass, a metric or a layout, imported if it is named as ``module:Class``."""
    if not isinstance(owner.options, str):
        return owner.options
    found: type[PassOptions] = import_named(owner.options)
    return found


def import_named(path: str) -> Any:
    """Returns what ``package.module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def parse_options(owner: HasOptions, values: Mapping[str, Any], listed_by: str = "") -> PassOptions:
    """Options of a pass, a metric or a layout from what a user wrote.

    Args:
        owner: has the options.
        values: what was written.
        listed_by: the command that shows the options; empty: that of a pass.

    Raises:
        OptimError[unknown-option]: a key that it does not have; lists the near ones.
        OptimError[bad-option]: a value that does not fit.
    """
    cls = options_class(owner)
    listed = listed_by or f"optim passes show {owner.name}"
    for key in values:
        if key not in cls.model_fields:
            raise unknown_name("option", key, cls.model_fields, fix=listed)
    try:
        return cls.model_validate(dict(values))
    except ValidationError as error:
        problems = "; ".join(_problem(e["loc"], e["msg"]) for e in error.errors())
        raise OptimError.usage("bad-option", f"options of {owner.name} do not fit", problems, listed) from error


def written_options(name: str, text: str, *, example: str) -> dict[str, Any]:
    """What a user wrote behind ``NAME:``, as ``k=v,...`` with TOML values; nothing in an empty text.

    Args:
        name: of the pass, metric or layout, for the error.
        text: behind the colon.
        example: what a user could have written, flag and all.

    Raises:
        OptimError[bad-option]: it is not TOML.
    """
    import tomllib

    try:
        found: dict[str, Any] = tomllib.loads(f"options = {{{text}}}")["options"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptimError.usage(
            "bad-option",
            f"cannot read the options of {name}",
            f"{text}: {error}",
            f"values are TOML, so a text needs quotes: {example}",
        ) from error
    return found


def _problem(place: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))}: {message}" if place else message
