"""A lock: what a run writes so that it can be repeated exactly, verified, without searching again."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import BaseModel, ConfigDict, Field

from optim._engine.recipes.recipe import BudgetTable, Recipe, recipe_from
from optim._engine.recipes.toml import read_toml, validate
from optim._engine.search.settings import Named
from optim.errors import OptimError
from optim.model import SessionConfig

_OPENING = """\
Written by optim: the exact steps from {file_name} to the result. Keep it beside your code; do not edit it.
Make and verify the same model again, without searching:

    optim run {file_name} --recipe recipe.lock.toml -o run

A repetition must reach result.model_digest: graph, weights and session settings, as report.json names them.
"""

LOCK_FILE = "recipe.lock.toml"
"""The lock of a run folder that has a model."""

_LOCK_VERSION = 1
"""Raised when an older optim would repeat something else; keys that only inform are added without."""


class _LockTable(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, defer_build=True)


class Header(_LockTable):
    """Marks the file as a lock."""

    version: int = Field(default=_LOCK_VERSION, description="an optim that is too old for a lock refuses it")
    made_by: str = Field(description="distribution and version, e.g. optim-core 0.1.0")


class LockedSource(_LockTable):
    """The model that was optimized."""

    file_name: str = Field(description="name of the model file")
    digest: str = Field(description="digest of the model: sha256 over graph and weights")


class LockedTarget(_LockTable):
    """The target of the run."""

    name: str = Field(description="target as in `optim targets`")
    backend: str = Field(description="backend of the target")
    baseline: str | None = Field(
        default=None, description="target that it was timed against and compared with; absent if it is the same target"
    )
    versions: Mapping[str, str] = Field(default={}, description="versions of libraries by distribution")


class LockedFeeds(_LockTable):
    """The input samples."""

    digest: str = Field(description="digest of the samples")
    origin: str = Field(description="origin of the samples, as text")
    seed: int = Field(description="random seed")
    data: str | None = Field(default=None, description="samples that the user gave; absent if optim synthesized them")


class LockedPass(_LockTable):
    """One step of the chain."""

    name: str = Field(description="name of the pass")
    stage: str = Field(description="stage of the pass")
    options: Mapping[str, Any] = Field(default={}, description="every option with its value")
    none: tuple[str, ...] = Field(default=(), description="options without a value, because TOML has no null")
    package: str = Field(description="distribution that has the pass")
    package_version: str = Field(description="version of the distribution")

    @classmethod
    def of(cls, name: str, stage: str, options: Mapping[str, Any], package: str, package_version: str) -> LockedPass:
        """A step, its options sorted into values and Nones."""
        return cls(
            name=name,
            stage=stage,
            package=package,
            package_version=package_version,
            options={key: value for key, value in options.items() if value is not None},
            none=tuple(key for key, value in options.items() if value is None),
        )

    @property
    def all_options(self) -> dict[str, Any]:
        """Every option with its value, None among them."""
        return {**self.options, **dict.fromkeys(self.none)}


class LockedResult(_LockTable):
    """The result: a repetition must reach the digest; the figures inform."""

    model_digest: str = Field(description="sha256 over graph, weights and session settings")
    drift: float | None = Field(default=None, description="largest drift of any output")
    task_value: float | None = Field(default=None, description="value of the task metric")
    latency_ratio: float | None = Field(default=None, description="latency, relative to the original")


class Lock(_LockTable):
    """Record of a run, which repeats it.

    Every run folder with a model has the file ``recipe.lock.toml``. A run with the lock applies exactly these passes
    and options, compares the result with the original, and searches nothing. The same source, packages and lock give
    the same ``result.model_digest``.
    """

    lock: Header
    source: LockedSource
    target: LockedTarget
    goal: str = Field(description="property that the run improved")
    generate: str | None = Field(default=None, description="tokens of the prompt and the answer, for goal generate")
    metric: str | None = Field(default=None, description="task metric")
    budget: BudgetTable
    feeds: LockedFeeds
    passes: tuple[LockedPass, ...] = Field(default=(), description="steps from the source to the result, in order")
    session: SessionConfig = Field(default=SessionConfig(), description="session settings of the result")
    result: LockedResult

    def chain(self) -> tuple[Named, ...]:
        """The steps to repeat, as a run takes them."""
        return tuple(Named(locked.name, locked.all_options) for locked in self.passes)

    def data_beside(self, path: Path) -> str | None:
        """Returns the samples of the run: as written, or beside the lock, which was read from ``path``."""
        if self.feeds.data is None or Path(self.feeds.data).exists():
            return self.feeds.data
        beside = path.absolute().parent / self.feeds.data
        return str(beside) if beside.exists() else self.feeds.data


def header() -> Header:
    """The header of a lock that this optim writes."""
    return Header(made_by=f"optim-core {importlib.metadata.version('optim-core')}")


def load_recipe_or_lock(path: Path) -> Recipe | Lock:
    """What a TOML file holds: a lock where it has a table ``[lock]``, else a recipe.

    Raises:
        OptimError[lock-too-new]: a later optim wrote it, and this one would repeat something else.
        OptimError[recipe-not-readable]: the file is missing or not text.
        OptimError[bad-toml]: it is no TOML, with the line.
        OptimError: as :func:`optim._engine.recipes.recipe.recipe_from`.
    """
    data = read_toml(path)
    if "lock" not in data:
        return recipe_from(data, path)
    table = data["lock"]
    version = table.get("version") if isinstance(table, dict) else None
    if isinstance(version, int) and version > _LOCK_VERSION:
        raise OptimError.usage(
            "lock-too-new",
            f"{path} was written by a later optim ({table.get('made_by', 'unknown')})",
            f"its version is {version}; this optim reads up to {_LOCK_VERSION}",
            "update optim: docs/install.md#update",
        )
    return validate(Lock, data, path)


def write_lock(lock: Lock, path: Path) -> None:
    """Write ``lock`` to ``path``; the same lock gives the same bytes."""
    path.write_text(lock_text(lock), encoding="utf-8")


def lock_text(lock: Lock) -> str:
    """``lock`` as TOML with a comment on top; reading it gives an equal lock."""
    document = tomlkit.document()
    for line in _OPENING.format(file_name=lock.source.file_name).splitlines():
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    values = lock.model_dump(mode="json", exclude_none=True)
    for step in values["passes"]:
        options = tomlkit.inline_table()
        options.update(step.pop("options"))
        step["options"] = options
        if not step["none"]:
            del step["none"]
    for name in sorted(values, key=lambda name: isinstance(values[name], dict | list)):  # TOML has tables last
        if values[name] != []:
            document.add(name, tomlkit.item(values[name]))
    return tomlkit.dumps(document)
