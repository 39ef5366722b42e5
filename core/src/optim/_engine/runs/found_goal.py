"""The goal of a run where nobody named one: of a decoder the time of an answer, of all else that of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from optim._engine.generation.decoder import generates_alone, require_generating
from optim._engine.generation.workload import Workload
from optim._engine.search.measure import reach_job
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import cache_key
from optim.jobs.process import WorkerFailed
from optim.model import Model

_REACH_S = 120.0
"""For opening the model and one token: it only ends one that hangs."""


def found_goal(bench: Workbench, model: Model, facts: Mapping[str, Any]) -> tuple[RunSettings, str]:
    """The settings with the goal that a run has.

    Args:
        bench: of the run; the model was ingested, and nothing prepared.
        model: the original.
        facts: of its source; empty where nothing is known.

    Returns:
        The settings, and what whoever waits is told of the goal; empty where the user named it, or it is latency.

    Raises:
        OptimError[not-a-decoder]: the goal is ``generate``, and the model has no past.
        OptimError[bad-workload]: answers of so many tokens go beyond the context of the model.
    """
    settings = bench.settings
    if settings.goal_is_said:
        if settings.goal == "generate":
            require_generating(model)
            settings.workload.require_context(facts)
        return settings, ""
    settings = replace(settings, goal_is_said=True)
    if not bench.target.timed or not generates_alone(model):
        return settings, ""
    workload = settings.workload.within(facts)
    if "context" not in facts and (why := _why_not_so_far(bench, model, workload)):
        return settings, (
            f"the graph is a decoder, and single runs of it are timed, for answers of {workload} fail: {why}; "
            "--generate prompt=N,new=N times others"
        )
    return replace(settings, goal="generate", workload=workload), (
        f"the graph is a decoder: the goal is generate, the time of answers of {workload} "
        "(--goal latency times single runs, --generate prompt=N,new=N other answers)"
    )


def _why_not_so_far(bench: Workbench, model: Model, workload: Workload) -> str:
    """Why the last token of an answer cannot be computed; empty where it can."""
    request = reach_job.Request(model, bench.place, workload.depths[-1])
    key = cache_key("reach", model.digest, request.depth, bench.machine, bench.keys.backend)
    if bench.runner.known(key, reach_job.Answer) is not None:
        return ""
    try:
        answer = bench.runner.call(reach_job.JOB, request, timeout_s=_REACH_S)
    except WorkerFailed as failed:
        return failed.error.cause if failed.error else failed.reason
    bench.runner.keep(key, answer)
    return ""
