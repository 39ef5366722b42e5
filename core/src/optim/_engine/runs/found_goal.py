"""The goal of a run where nobody named one: of a decoder the time of an answer, of all else that of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from optim._engine.goals.generating import GENERATE, GENERATOR, Workload
from optim._engine.goals.known import find_goal
from optim._engine.plugins.registry import Registry
from optim._engine.search.settings import RunSettings
from optim._engine.sources.export_file import known_export, read_export_file
from optim._engine.sources.exported import find_pipeline
from optim.goal import GoalRequest
from optim.model import Model
from optim.onnx.files import describe_model
from optim.target import Target


def found_goal(
    settings: RunSettings,
    registry: Registry,
    target: Target,
    model: Model,
    facts: Mapping[str, Any],
    why_no_answer: Callable[[Model, GoalRequest], str],
) -> tuple[RunSettings, str]:
    """The settings with the goal that a run has, once its model was ingested, and nothing prepared.

    ``why_no_answer`` tells why the last token of an answer cannot be computed; it is empty where it can.

    Returns:
        The settings, and what whoever waits is told of the goal; empty where the user named it, or it is latency.

    Raises:
        OptimError: the clock of the goal that the user named cannot run the model.
    """
    if settings.goal_is_said:
        find_goal(registry, settings.goal).require(settings.goal_request, facts, model)
        return settings, ""
    settings = replace(settings, goal_is_said=True)
    generator = registry.find_part(GENERATOR) if target.timed else None
    if generator is None:
        return settings, ""
    if not generator.generates(model):
        why = generator.why_not(model)
        return settings, f"the graph takes tokens and a past, but optim times single runs: {why}" if why else ""
    asked = generator.within(settings.goal_request, facts)
    workload = Workload(asked.prompt, asked.new)
    if "context" not in facts and (why := why_no_answer(model, asked)):
        return settings, (
            f"the graph is a decoder, but optim times single runs, because answers of {workload} fail: {why}; "
            "--generate prompt=N,new=N sets other lengths"
        )
    return replace(settings, goal=GENERATE, workload=workload), (
        f"the graph is a decoder: the goal is generate, the time of answers of {workload} "
        "(--goal latency times single runs, --generate prompt=N,new=N other answers)"
    )


def require_foretold(settings: RunSettings, registry: Registry) -> None:
    """Refuse a source that cannot be exported, or has too short a context, before an export, which may take minutes.

    Raises:
        OptimError[bad-workload]: answers go beyond its context, and its ``config.json`` says so.
        OptimError: it cannot be exported, or no plugin does it.
    """
    assert settings.export is not None
    facts = find_pipeline(registry, settings.export.spec).foretold(settings.export.spec)
    if settings.goal_is_said:
        find_goal(registry, settings.goal).require(settings.goal_request, facts, None)


def planned_goal(settings: RunSettings, registry: Registry, *, timed: bool) -> tuple[RunSettings, str]:
    """The goal of a run as far as the interface of its graph tells it; nothing runs, and no weights are read.

    Returns:
        The settings, and a line about the goal; empty where the user named it, or it is latency.

    Raises:
        OptimError: see :func:`require_foretold`.
    """
    if settings.export is not None:
        require_foretold(settings, registry)
    generator = registry.find_part(GENERATOR)
    if settings.goal_is_said or not timed or settings.chain is not None or generator is None:
        return settings, ""
    if settings.export is not None:
        return settings, "if the exported model is a decoder, the goal is generate: --goal generate shows that plan"
    path = settings.source
    exported = read_export_file(path) if path.is_dir() else None
    if exported is not None and len(exported.components) == 1:
        path = path / next(iter(exported.components.values())).file
    model = _read(path)
    if model is None or not generator.generates(model):
        return settings, ""
    known = known_export(path)
    facts = known.content.facts if known is not None else {}
    asked = generator.within(settings.goal_request, facts)
    workload = Workload(asked.prompt, asked.new)
    until = "" if "context" in facts else f", if it runs as far as {workload}"
    told = f"the graph is a decoder: the goal is generate{until} (--goal latency shows the plan for single runs)"
    return replace(settings, goal=GENERATE, workload=workload, goal_is_said=True), told


def _read(path: Path) -> Model | None:
    """The interface of a file; None where it is missing or does not read: a run will say that."""
    try:
        return describe_model(path, digest="of a plan")
    except (OSError, ValueError, DecodeError):
        return None
