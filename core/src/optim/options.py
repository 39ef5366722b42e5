"""Options of passes: pydantic classes, found and built only when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from optim.errors import ExitStatus, OptimError, unknown_name
from optim.source_passes import AnyPass


class PassOptions(BaseModel):
    """Base of every options class: immutable, unknown keys refused, every field described with its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoOptions(PassOptions):
    """For a pass that has nothing to choose."""


def options_class(pass_class: AnyPass) -> type[PassOptions]:
    """The options class of a pass, imported if the pass names it as ``module:Class``."""
    if not isinstance(pass_class.options, str):
        return pass_class.options
    module, _, name = pass_class.options.partition(":")
    found: type[PassOptions] = getattr(importlib.import_module(module), name)
    return found


def parse_options(pass_class: AnyPass, values: Mapping[str, Any]) -> PassOptions:
    """Options of a pass from what a user wrote.

    Raises:
        OptimError[unknown-option]: a key that the pass does not have; lists the near ones.
        OptimError[bad-option]: a value that does not fit.
    """
    cls = options_class(pass_class)
    for key in values:
        if key not in cls.model_fields:
            raise unknown_name("option", key, cls.model_fields, fix=f"optim passes show {pass_class.name}")
    try:
        return cls.model_validate(dict(values))
    except ValidationError as error:
        problems = "; ".join(_problem(e["loc"], e["msg"]) for e in error.errors())
        raise OptimError(
            "bad-option",
            f"options of {pass_class.name} do not fit",
            problems,
            f"optim passes show {pass_class.name}",
            status=ExitStatus.USAGE,
        ) from error


def _problem(place: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))}: {message}" if place else message
