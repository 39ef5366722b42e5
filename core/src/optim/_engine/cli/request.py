"""What the user wrote after ``optim run``, as settings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    lock = None
    settings = replace(RunSettings(source=model), export=_request(model, words))
    if recipe is not None:
        from optim._engine.runs.locking import apply_recipe

        settings, lock = apply_recipe(settings, recipe)
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
    if "max_drift" in given and "lossless" in given:
        raise OptimError(
            "conflicting-request",
            "--lossless and --max-drift exclude each other",
            "what is lossless is held to rounding error, whatever drift is accepted",
            fix="leave one of the two out",
            status=ExitStatus.USAGE,
        )
    if "lossless" in given:
        changes["max_loss"] = None
    if "max_drift" in given:
        changes["lossless"] = False
    if "metric" in given:
        changes["metric"] = parse_metric(given["metric"])
    if "max_loss" in given:
        changes["max_loss"] = parse_max_loss(given["max_loss"])
    settings = replace(settings, **changes)
    if recipe is not None and not words.get("trust_code"):
        from optim._engine.recipes.trust import require_no_code

        require_no_code(settings, recipe, given)
    return settings, lock


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
