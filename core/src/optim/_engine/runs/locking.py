"""Between runs and recipe files: what a run locks, and what a recipe or a lock asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from optim._engine.compare.metric_spec import parse_metric
from optim._engine.feeds.named import GIVEN_FEEDS
from optim._engine.gate.max_loss import parse_max_loss, parse_max_mismatch
from optim._engine.goals.bounds import fields_of, said_bounds
from optim._engine.goals.generating import Workload, asked_workload
from optim._engine.recipes.lock import (
    Lock,
    LockedFeeds,
    LockedPass,
    LockedResult,
    LockedSource,
    LockedTarget,
    header,
    load_recipe_or_lock,
)
from optim._engine.recipes.recipe import BudgetTable, Recipe, recipe_from
from optim._engine.reports.outcome import Outcome
from optim._engine.search.settings import RunSettings
from optim.errors import ExitStatus, OptimError


def lock_of(outcome: Outcome) -> Lock:
    """The lock of a run that delivered a model."""
    candidate, settings = outcome.delivered, outcome.settings
    assert candidate is not None and outcome.result is not None
    budget = _budget_of(settings)
    return Lock(
        lock=header(),
        source=LockedSource(file_name=settings.source.name, digest=outcome.source.model.digest),
        target=LockedTarget(
            name=outcome.target.name,
            backend=outcome.target.backend,
            baseline=outcome.baseline if outcome.baseline not in ("", outcome.target.name) else None,
            versions=outcome.versions,
        ),
        goal=settings.goal,
        generate=str(settings.workload) if "prompt" in outcome.goal_facts.takes else None,
        metric=settings.metric.text if settings.metric else None,
        budget=budget,
        feeds=LockedFeeds(
            digest=outcome.prepared.digest,
            origin=outcome.prepared.origin,
            seed=settings.seed,
            data=GIVEN_FEEDS if _given_in_python(settings.data) else settings.data,
        ),
        passes=tuple(
            LockedPass.of(step.pass_name, step.stage, step.options, *outcome.packages.get(step.plugin, ("", "")))
            for step in candidate.steps
        ),
        session=candidate.model.session,
        result=LockedResult(
            model_digest=candidate.model.digest,
            drift=candidate.drift.relative_error,
            latency_ratio=outcome.result.ratio,
            task_value=candidate.task.value if candidate.task else None,
        ),
    )


def apply_recipe(settings: RunSettings, path: Path | Mapping[str, Any]) -> tuple[RunSettings, Lock | None]:
    """Settings with what a recipe or a lock says laid over them.

    Returns:
        The settings, and the lock where it was one: its source and its result must match.
    """
    if isinstance(path, Mapping):
        return _with_recipe(settings, recipe_from(path, Path("recipe"))), None
    found = load_recipe_or_lock(path)
    if isinstance(found, Recipe):
        return _with_recipe(settings, found), None
    repeated = replace(
        settings,
        target=found.target.name,
        baseline=found.target.baseline or "",
        goal=found.goal,
        goal_is_said=True,
        workload=Workload.parse(found.generate or ""),
        data=data_beside(found, path),
        seed=found.feeds.seed,
        chain=found.chain(),
        metric=parse_metric(found.metric) if found.metric else None,
        **_said(found.budget),
    )
    return repeated, found


def _given_in_python(data: str | None) -> bool:
    """Returns whether feeds were handed over by a program; their file is gone when the run ends."""
    return data is not None and Path(data).name == GIVEN_FEEDS


def require_source(lock: Lock, outcome_digest: str) -> None:
    """Refuse to repeat a lock on another model.

    Raises:
        OptimError[other-source]: the model is not the one that was locked.
    """
    if lock.source.digest != outcome_digest:
        raise OptimError(
            "other-source",
            "the lock was made from another model",
            f"it is of {lock.source.file_name} ({lock.source.digest[:12]}), this one is {outcome_digest[:12]}",
            "give the model that the lock names, or search again without --recipe",
            status=ExitStatus.NOT_HELD,
        )


def _with_recipe(settings: RunSettings, recipe: Recipe) -> RunSettings:
    plain: dict[str, Any] = {
        "target": recipe.target,
        "goal": recipe.goal,
        **(asked_workload(recipe.generate, recipe.goal) if recipe.generate is not None else {}),
        "data": recipe.data,
        "seed": recipe.seed,
        "search_seconds": recipe.search_seconds,
        "metric": parse_metric(recipe.metric) if recipe.metric else None,
    }
    given = {key: value for key, value in plain.items() if value is not None}
    given |= {"goal_is_said": True} if "goal" in given else {}
    return replace(
        settings,
        **given,
        **_said(recipe.budget),
        stages=recipe.stages,
        without=tuple(sorted(set(recipe.without))),
        named=recipe.named(),
    )


def _budget_of(settings: RunSettings) -> BudgetTable:
    drift = settings.drift_limit
    accepted: dict[str, Any] = {
        "max_drift": drift if math.isfinite(drift) else None,
        "max_loss": settings.max_loss.text if settings.max_loss else None,
        "max_mismatch": settings.max_mismatch or None,
    }
    if settings.lossless:
        accepted = {"lossless": True}
    return BudgetTable(max_batch_drift=settings.max_batch_drift, **accepted, **fields_of(settings.bounds))


def _said(budget: BudgetTable) -> dict[str, Any]:
    """A budget as settings of a run."""
    loss = parse_max_loss(str(budget.max_loss)) if budget.max_loss is not None else None
    return {
        "lossless": budget.lossless,
        "max_drift": budget.max_drift,
        "max_loss": loss,
        "max_mismatch": parse_max_mismatch(str(budget.max_mismatch)) if budget.max_mismatch is not None else 0.0,
        "max_batch_drift": budget.max_batch_drift,
        "bounds": said_bounds(dict(budget)),
    }


def data_beside(lock: Lock, path: Path) -> str | None:
    """The feeds of a lock: as written, or beside the lock."""
    if lock.feeds.data is None or Path(lock.feeds.data).exists():
        return lock.feeds.data
    beside = path.absolute().parent / lock.feeds.data
    return str(beside) if beside.exists() else lock.feeds.data
