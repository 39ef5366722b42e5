"""What the user wrote after ``optim run``, as settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.api.request import settings_from
from optim._engine.cli.source_options import given_source_options, source_request
from optim._engine.compare.metric_spec import parse_max_loss, parse_metric
from optim._engine.search.settings import Named, RunSettings, parse_stage
from optim._engine.sources.naming import needs_export
from optim.errors import ExitStatus, OptimError
from optim.source import SourceRequest

if TYPE_CHECKING:
    from optim._engine.recipes.lock import Lock

_FIELDS = {field.name for field in fields(RunSettings)}


def settings_of(model: Path, recipe: Path | None, words: Mapping[str, Any]) -> tuple[RunSettings, Lock | None]:
    """The settings of a run; what is on the command line goes before what is in the recipe.

    Returns:
        The settings, and the lock where one is to be repeated.

    Raises:
        OptimError[untrusted-code]: the recipe names code, and the user did not say that it may run.
    """
    given = {key: value for key, value in words.items() if value is not None and value != () and value is not False}
    changes: dict[str, Any] = {key: value for key, value in given.items() if key in _FIELDS}
    if "timeout" in given:
        changes["timeout_s"] = given["timeout"]
    if "without" in given:
        changes["without"] = tuple(sorted(set(given["without"])))
    if "stages" in given:
        changes["stages"] = tuple(parse_stage(name) for name in given["stages"])
    if "named" in given:
        changes["named"] = tuple(parse_named(text) for text in given["named"])
    if "metric" in given:
        changes["metric"] = parse_metric(given["metric"])
    if "max_loss" in given:
        changes["max_loss"] = parse_max_loss(given["max_loss"])
    export = _request(model, words)
    return settings_from(model, export, recipe, changes, trust_code=bool(words.get("trust_code")))


def _request(source: Path, words: Mapping[str, Any]) -> SourceRequest | None:
    """How the source is exported first, where it is no ONNX model.

    Raises:
        OptimError[conflicting-request]: it is one, and options say how to export it.
    """
    if needs_export(str(source)):
        return source_request(str(source), words, int(words.get("seed") or 0))
    if given := given_source_options(words):
        raise OptimError(
            "conflicting-request",
            f"{given[0]} says how to export a source, and {source} is an ONNX model",
            "an ONNX model is not exported",
            fix=f"leave {given[0]} out",
            status=ExitStatus.USAGE,
        )
    return None


def parse_named(text: str) -> Named:
    """``PASS`` or ``PASS:k=v,...`` with TOML values.

    Raises:
        OptimError[bad-option]: what stands after the colon is not TOML.
    """
    name, colon, options = text.partition(":")
    if not colon:
        return Named(name)
    try:
        return Named(name, tomllib.loads(f"options = {{{options}}}")["options"])
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptimError(
            "bad-option",
            f"cannot read the options of {name}",
            f"{options}: {error}",
            f"values are TOML: --with \"{name}:keep=['a','b'],per_channel=true\"",
            status=ExitStatus.USAGE,
        ) from error
