"""Options of passes and metrics: pydantic classes, found and built only when they are needed."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from optim.errors import ExitStatus, OptimError, unknown_name
from optim.metric import MetricFamily
from optim.source_passes import AnyPass


class PassOptions(BaseModel):
    """Base of every options class: immutable, unknown keys refused, every field described with its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NoOptions(PassOptions):
    """For a pass that has nothing to choose."""


def options_class(owner: AnyPass | MetricFamily) -> type[PassOptions]:
    """The options class of a pass or a metric, imported if it is named as ``module:Class``."""
    if not isinstance(owner.options, str):
        return owner.options
    found: type[PassOptions] = import_named(owner.options)
    return found


def import_named(path: str) -> Any:
    """Returns what ``package.module:name`` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def parse_options(owner: AnyPass | MetricFamily, values: Mapping[str, Any]) -> PassOptions:
    """Options of a pass or a metric from what a user wrote.

    Raises:
        OptimError[unknown-option]: a key that it does not have; lists the near ones.
        OptimError[bad-option]: a value that does not fit.
    """
    cls = options_class(owner)
    is_metric = isinstance(owner, MetricFamily)
    for key in values:
        if key not in cls.model_fields:
            raise unknown_name(
                "option", key, cls.model_fields, fix="optim metrics" if is_metric else f"optim passes show {owner.name}"
            )
    try:
        return cls.model_validate(dict(values))
    except ValidationError as error:
        problems = "; ".join(_problem(e["loc"], e["msg"]) for e in error.errors())
        raise OptimError(
            "bad-option",
            f"options of {owner.name} do not fit",
            problems,
            "optim metrics" if is_metric else f"optim passes show {owner.name}",
            status=ExitStatus.USAGE,
        ) from error


def _problem(place: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    return f"{'.'.join(map(str, place))}: {message}" if place else message
