"""The samples that a run was judged on, for what looks at its folder later: made-up ones say little of its result."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from optim._engine.recipes.lock import Lock, load_recipe_or_lock
from optim._engine.runs.locking import data_beside
from optim.errors import OptimError

LOCK_FILE = "recipe.lock.toml"

OF_ANOTHER_GRAPH = frozenset({"feeds-missing-input", "feeds-unknown-input", "feeds-shape", "feeds-dtype"})
"""A pass may have changed what goes in: the samples of the original do not fit then, and others are made up."""


def samples_of(lock: Lock, path: Path) -> str | None:
    """The samples of a run if they still lie as files: a lock of somebody else may name a function, which is code.

    Args:
        lock: of the run.
        path: of its file.
    """
    found = data_beside(lock, path)
    return found if found is not None and Path(found).exists() else None


def samples_of_runs(paths: Iterable[Path]) -> str | None:
    """The samples of the first run folder among ``paths`` that knows them; None if there is none."""
    found = (samples_of(lock, path / LOCK_FILE) for path in paths if (lock := _lock_of(path)) is not None)
    return next(filter(None, found), None)


def about_made_up(paths: Iterable[Path]) -> str:
    """What synthesized samples leave open of the run folders among ``paths`` that were judged on others; else empty."""
    for path in paths:
        lock = _lock_of(path)
        if lock is not None and lock.feeds.data is not None:
            return f"compared on synthesized inputs; the run of {path} had {lock.feeds.data}: give it with --data"
    return ""


def _lock_of(path: Path) -> Lock | None:
    """The lock of a run folder; None if there is none that can be read."""
    if not (path / LOCK_FILE).is_file():
        return None
    try:
        found = load_recipe_or_lock(path / LOCK_FILE)
    except OptimError:  # it is of another optim, or was changed: the model is looked at all the same
        return None
    return found if isinstance(found, Lock) else None
