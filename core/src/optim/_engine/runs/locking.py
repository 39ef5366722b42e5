"""The lock of a run, and whether a repeated run came to the model of its lock."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from optim._engine.feeds.named import GIVEN_FEEDS
from optim._engine.goals.bounds import fields_of
from optim._engine.goals.generating import workload_text
from optim._engine.recipes.lock import Lock, LockedFeeds, LockedPass, LockedResult, LockedSource, LockedTarget, header
from optim._engine.recipes.recipe import BudgetTable
from optim._engine.reports.outcome import Outcome
from optim._engine.search.settings import RunSettings
from optim.errors import ExitStatus, OptimError


def lock_of(outcome: Outcome) -> Lock:
    """The lock of a run that delivered a model."""
    candidate, settings = outcome.delivered, outcome.settings
    assert candidate is not None and outcome.result is not None
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
        generate=workload_text(settings.workload) if "prompt" in outcome.goal_takes else None,
        metric=settings.metric.text if settings.metric else None,
        budget=_budget_of(settings),
        feeds=LockedFeeds(
            digest=outcome.prepared.digest,
            origin=outcome.prepared.origin,
            seed=settings.seed,
            data=GIVEN_FEEDS if Path(settings.data or "").name == GIVEN_FEEDS else settings.data,  # gone after the run
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


def require_same(outcome: Outcome, lock: Lock) -> None:
    """Refuse a repeated run that has another original than its lock, or came to another result."""
    source, found = outcome.source.model.digest, outcome.delivered.model.digest if outcome.delivered else "none"
    if lock.source.digest != source:
        raise OptimError(
            "other-source",
            "the lock was made from another model",
            f"it is of {lock.source.file_name} ({lock.source.digest[:12]}), this one is {source[:12]}",
            "give the model that the lock names, or search again without --recipe",
            status=ExitStatus.NOT_HELD,
        )
    if found != lock.result.model_digest:
        changed = [
            f"{name} {version} -> {outcome.versions.get(name, 'none')}"
            for name, version in lock.target.versions.items()
            if outcome.versions.get(name) != version
        ]
        why = ", ".join(changed) or "no version differs"
        raise OptimError(
            "lock-mismatch",
            "the repeated model is not the one of the lock",
            f"expected {lock.result.model_digest[:12]}, got {found[:12]}; {why}",
            "install the versions that the lock names, or search again without --recipe",
            status=ExitStatus.NOT_HELD,
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
