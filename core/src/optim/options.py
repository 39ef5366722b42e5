"""Options of passes, metrics and layouts: pydantic classes that optim imports when it needs them."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from optim.errors import OptimError, unknown_name


class PassOptions(BaseModel):
    """Base of every options class: immutable, without unknown keys. Describe each field with its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoOptions(PassOptions):
    """Options of a pass without options."""


class HasOptions(Protocol):
    """Owner of options: the class of a pass, of an exporter or of a layout, or the family of a metric."""

    @property
    def name(self) -> str:
        """Name, as the user writes it."""

    @property
    def options(self) -> str | type[PassOptions]:
        """Class of the options, or ``package.module:Class``."""


def options_class(owner: HasOptions) -> type[PassOptions]:
    """Returns the options class of a pass, a metric or a layout. Imports a class that is named as ``module:Class``."""
    if not isinstance(owner.options, str):
        return owner.options
    found: type[PassOptions] = import_named(owner.options)
    return found


def import_named(path: str) -> Any:
    """Imports ``package.module:name`` and returns it."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def parse_options(owner: HasOptions, values: Mapping[str, Any], listed_by: str = "") -> PassOptions:
    """Makes options of a pass, a metric or a layout from the user's values.

    Args:
        owner: owner of the options.
        values: values by option, as the user wrote them.
        listed_by: command that lists the options; empty: that of a pass.

    Raises:
        OptimError[unknown-option]: the owner has no such option. The error lists the nearest ones.
        OptimError[bad-option]: a value does not fit.
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
    """Parses the text after ``NAME:`` into options: ``k=v,...`` with TOML values.

    Args:
        name: name of the pass, metric or layout, for the error.
        text: text after the colon; may be empty.
        example: a valid option with its flag, for the error.

    Raises:
        OptimError[bad-option]: the text is not TOML.
    """
    import tomllib

    try:
        found: dict[str, Any] = tomllib.loads(f"options = {{{text}}}")["options"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptimError.usage(
            "bad-option",
            f"cannot read the options of {name}",
            f"{text}: {error}",
            f"values are TOML, so a text needs quotes: {_quoted(name, text, example)}",
        ) from error
    return found


def _quoted(name: str, text: str, example: str) -> str:
    """Writes what a user wrote with quotes around bare words; returns the example if that is no TOML either."""
    import re
    import tomllib

    quoted = re.sub(r"=\s*([A-Za-z_][\w./-]*)\s*(?=,|$)", r"='\1'", text)
    quoted = re.sub(r"='(true|false)'", r"=\1", quoted)
    try:
        tomllib.loads(f"options = {{{quoted}}}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return example
    return f'{example.split()[0]} "{name}:{quoted}"'


def _problem(place: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))}: {message}" if place else message
