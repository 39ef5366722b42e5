"""The goal of a run where nobody named one: of a decoder the time of an answer, of all else that of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from optim._engine.goals.generating import GENERATE, GENERATOR, workload_text
from optim._engine.goals.known import find_goal
from optim._engine.plugins.registry import Registry
from optim._engine.search.settings import RunSettings
from optim._engine.sources.export_file import known_export, read_export_file
from optim._engine.sources.exported import find_pipeline
from optim._engine.store import cache_key
from optim.goal import GoalRequest
from optim.jobs.process import WorkerFailed
from optim.model import Model
from optim.onnx.files import describe_model

if TYPE_CHECKING:
    from optim._engine.search.workbench import Workbench

_REACH_S = 120.0
"""For opening a decoder and one token: it only ends one that hangs."""


def find_goal_of_graph(bench: Workbench) -> None:
    """Sets the goal of the graph if the user named none, and says so; the model is ingested, and not yet prepared."""
    settings, facts, model = bench.settings, bench.facts, bench.original.model
    if settings.goal_is_said:
        bench.goal.require(settings.goal_request, facts, model)
        return
    settings, told = replace(settings, goal_is_said=True), ""
    generator = bench.registry.find_part(GENERATOR) if bench.target.timed else None
    asked = generator.answers(model, settings.goal_request, facts) if generator is not None else ""
    if isinstance(asked, str):
        told = f"the graph takes tokens and a past, but optim times single runs: {asked}" if asked else ""
    else:
        workload = workload_text(asked)
        why_not = _why_no_answer(bench, model, asked) if "context" not in facts else ""
        if why_not:
            told = (
                f"the graph is a decoder, but optim times single runs, because answers of {workload} fail: {why_not}; "
                "--generate prompt=N,new=N sets other lengths"
            )
        else:
            settings = replace(settings, goal=GENERATE, workload=asked)
            told = (
                f"the graph is a decoder: the goal is generate, the time of answers of {workload} "
                "(--goal latency times single runs, --generate prompt=N,new=N other answers)"
            )
    bench.aim_at(settings)
    if told:
        bench.say(told)


def _why_no_answer(bench: Workbench, model: Model, asked: GoalRequest) -> str:
    """Why the last token of an answer of a decoder cannot be computed; empty where it can."""
    from optim._engine.jobs import reach

    request = reach.Request(model, bench.place, next(iter(bench.registry.offered("generator"))), asked)
    key = cache_key("reach", model.digest, asked.prompt, asked.new, bench.machine, bench.keys.backend)
    try:
        bench.runner.call(reach.JOB, request, timeout_s=_REACH_S, key=key)
    except WorkerFailed as failed:
        return failed.error.cause if failed.error else failed.reason
    return ""


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
    known = known_export(path)
    facts = known.content.facts if known is not None else {}
    try:
        model = describe_model(path, digest="of a plan")
    except (OSError, ValueError, DecodeError):  # it is missing or does not read: a run will say that
        return settings, ""
    asked = generator.answers(model, settings.goal_request, facts)
    if isinstance(asked, str):
        return settings, ""
    workload = workload_text(asked)
    until = "" if "context" in facts else f", if it runs as far as {workload}"
    told = f"the graph is a decoder: the goal is generate{until} (--goal latency shows the plan for single runs)"
    return replace(settings, goal=GENERATE, workload=asked, goal_is_said=True), told
