"""What was asked of a run, in Python or on the command line, as settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim._engine.search.settings import RunSettings
from optim.errors import ExitStatus, OptimError
from optim.source import SourceRequest

if TYPE_CHECKING:
    from optim._engine.recipes.lock import Lock


def settings_from(
    source: Path,
    export: SourceRequest | None,
    recipe: Path | Mapping[str, Any] | None,
    given: Mapping[str, Any],
    *,
    trust_code: bool,
) -> tuple[RunSettings, Lock | None]:
    """The settings of a run; what was given goes before what is in the recipe.

    Args:
        source: the model.
        export: how it is exported, where it is no ONNX model.
        recipe: a recipe or a lock; tables of a program are its own, and what they name may run.
        given: fields of :class:`RunSettings` that the user gave.
        trust_code: whether a recipe may name code.

    Returns:
        The settings, and the lock where one is to be repeated.

    Raises:
        OptimError[conflicting-request]: two things that exclude each other.
        OptimError[untrusted-code]: the recipe names code, and the user did not say that it may run.
        OptimError: the recipe cannot be used.
    """
    lock = None
    settings = RunSettings(source=source, export=export)
    if recipe is not None:
        from optim._engine.runs.locking import apply_recipe

        settings, lock = apply_recipe(settings, recipe)
    changes = dict(given)
    if "max_drift" in given and given.get("lossless"):
        raise OptimError(
            "conflicting-request",
            "--lossless and --max-drift exclude each other",
            "what is lossless is held to rounding error, whatever drift is accepted",
            fix="leave one of the two out",
            status=ExitStatus.USAGE,
        )
    if given.get("lossless"):
        changes.setdefault("max_loss", None)
    if "max_drift" in given:
        changes["lossless"] = False
    settings = replace(settings, **changes)
    if isinstance(recipe, Path) and not trust_code:
        from optim._engine.recipes.trust import require_no_code

        require_no_code(settings, recipe, given)
    return settings, lock
