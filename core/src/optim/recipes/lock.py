"""The lock: what a run writes so that the same model can be made and verified again without a search.

TOML has no null: an option that is None is named in ``unset`` instead.
"""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from optim.hooks import ENTRY_POINT_GROUP
from optim.search.settings import Goal, Named, RunSettings

if TYPE_CHECKING:
    from optim.runs.outcome import Outcome
    from optim.search.nodes import Step

LOCK_FILE = "recipe.lock.toml"
VERSION = 1


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class LockedSource(_Table):
    """The original."""

    file: str
    digest: str = Field(description="sha256 over graph and weights")


class LockedBudget(_Table):
    """What the result was held to."""

    max_drift: float | None = Field(None, description="relative L2; absent where lossless")
    lossless: bool = False


class LockedFeeds(_Table):
    """What the models were compared on."""

    origin: str
    digest: str
    data: str | None = Field(None, description="what was given after --data; absent where synthesized")


class LockedPass(_Table):
    """One step of the chain."""

    pass_name: str = Field(validation_alias="pass", serialization_alias="pass")
    plugin: str
    package: str
    version: str
    unset: tuple[str, ...] = Field((), description="options that are None")
    options: dict[str, Any] = {}

    @property
    def all_options(self) -> dict[str, Any]:
        """Those that are None too."""
        return {**self.options, **dict.fromkeys(self.unset)}


class LockedResult(_Table):
    """What must come out."""

    model_digest: str = Field(description="sha256 over graph, weights and session settings")
    drift: float = Field(description="relative L2 of the worst output when it was made")
    ratio: float | None = Field(None, description="latency to the original's when it was made")


class Lock(_Table):
    """``recipe.lock.toml``."""

    version: Literal[1] = 1
    target: str
    goal: Goal
    seed: int
    source: LockedSource
    budget: LockedBudget
    feeds: LockedFeeds
    versions: dict[str, str] = Field(description="of the packages involved")
    chain: tuple[LockedPass, ...] = ()
    result: LockedResult

    def applied(self, settings: RunSettings) -> RunSettings:
        """The settings that repeat the chain."""
        max_drift = self.budget.max_drift
        return replace(
            settings, target=self.target, goal=self.goal, seed=self.seed, data=self.feeds.data,
            lossless=self.budget.lossless, max_drift=settings.max_drift if max_drift is None else max_drift,
            chain=tuple(Named(step.pass_name, step.all_options) for step in self.chain),
        )  # fmt: skip

    def as_toml(self) -> str:
        """The text of the file, explained for whoever opens it."""
        from optim.recipes.lock_text import lock_text

        return lock_text(self)


def lock_of(outcome: Outcome) -> Lock:
    """The lock of a run that delivered a model."""
    if outcome.result is None:
        raise ValueError("a run that delivers nothing has no lock")
    settings, node = outcome.settings, outcome.result.node
    return Lock(
        target=outcome.target.name,
        goal=settings.goal,
        seed=settings.seed,
        source=LockedSource(file=settings.source.name, digest=outcome.source.model.digest),
        budget=LockedBudget(max_drift=None if settings.lossless else settings.max_drift, lossless=settings.lossless),
        feeds=LockedFeeds(
            origin=outcome.prepared.origin, digest=outcome.prepared.digest, data=_found_again(settings.data)
        ),
        versions=dict(sorted(outcome.versions.items())),
        chain=tuple(map(_locked_pass, node.steps)),
        result=LockedResult(
            model_digest=node.model.digest, drift=node.drift.relative_l2, ratio=outcome.result.ratio
        ),
    )  # fmt: skip


def _locked_pass(step: Step) -> LockedPass:
    package, version = _package_of(step.plugin)
    return LockedPass(
        pass_name=step.pass_name, plugin=step.plugin, package=package, version=version,
        unset=tuple(name for name, value in step.options.items() if value is None),
        options={name: value for name, value in step.options.items() if value is not None},
    )  # fmt: skip


def _package_of(plugin: str) -> tuple[str, str]:
    """The distribution that brings a plugin, and its version; nothing is loaded."""
    for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP, name=plugin):
        if entry.dist is not None:
            return entry.dist.name, entry.dist.version
    return "", ""


def _found_again(data: str | None) -> str | None:
    """A path as it can be found from another working folder."""
    return str(Path(data).absolute()) if data is not None and Path(data).exists() else data
