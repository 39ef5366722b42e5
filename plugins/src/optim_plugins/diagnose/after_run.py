"""A look at a finished run: what is to blame for steps that were dropped for being wrong, and the times of operators.

A step is wrong that moves the outputs though it says that it does not, or that loses them, or that is so far beyond the
budget that no repair is tried. What honest rounding costs is no mistake: those steps are only beyond the budget.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from optim.after_run import DroppedStep, Findings, FinishedRun, StepBlame
from optim.jobs import WorkerFailed
from optim.laboratory import NodeTime
from optim_plugins.diagnose.blame import blame_job
from optim_plugins.diagnose.blame.section import details, section

_MOST_STEPS = 3
"""Steps that are looked into: what is wrong with one is often what is wrong with the next."""

_SECONDS = 25.0
"""For all of them, in a run whose end has as much; models of 100 MB take 5 to 15 each."""

_LEAST_S = 2.0
"""With less, nothing is found in any but the smallest models."""

_START_S = 0.5
"""A process of its own, and reading two profiles."""

_OPENED = 2
"""Times that each model is opened: with and without the profiler."""

_SHARE = 0.04
"""Of the run, what the profile may take beyond it, within what the proof may: on a busy machine little else is left."""

_RUNS = 8.0
"""Of each model: six, and what the profiler adds."""

_RUN_S = 0.1
"""Of timed runs of each model: one that takes a second is run six times."""

_MOST_S = 20.0
"""What is begun ends after that at the latest: it hangs."""


def look(run: FinishedRun) -> Findings:
    """Blame what is wrong, and profile the original and the result."""
    return Findings(tuple(_blamed(run)), _operator_ms(run))


def _blamed(run: FinishedRun) -> Iterator[StepBlame]:
    end = time.monotonic() + min(_SECONDS, run.left_s(0.0))
    for step in worst(run.dropped)[:_MOST_STEPS]:
        seconds = end - time.monotonic()
        if seconds < _LEAST_S:
            yield StepBlame(step.number, notes=("no time left to find the nodes to blame; run optim blame",))
            continue
        step.lab.say(f"finding the nodes to blame in {step.pass_name}")
        try:
            found = _blame(step, seconds)
        except WorkerFailed as failed:
            yield StepBlame(step.number, notes=(f"no node to blame was found: {failed.reason}",))
        else:
            name = found.blamed[0].name if found.blamed else ""
            yield StepBlame(step.number, name, details(found), section=section(found, step.pass_name, step.on))


def worst(dropped: Sequence[DroppedStep]) -> list[DroppedStep]:
    """The wrong ones: those that claim to be exact first, then by how far they are off; each pass before any again."""
    wrong = [step for step in dropped if not step.beyond_budget or step.beyond_repair]
    wrong.sort(key=lambda step: (step.lossy, -step.drift))
    firsts = {step.pass_name: step for step in reversed(wrong)}
    return sorted(wrong, key=lambda step: firsts[step.pass_name] is not step)


def _blame(step: DroppedStep, seconds: float) -> blame_job.Answer:
    """As ``optim blame`` finds it, with the model before the step as the reference.

    Raises:
        WorkerFailed: it did not come back in time, or the models have nothing in common.
    """
    # the gate has objected: it is looked into however small it is
    request = blame_job.Request(step.before, step.after, step.lab.setup, {}, tolerance=0.0)
    key = [step.before.digest, step.after.digest, step.lab.setup.samples]
    return step.lab.call(blame_job.__name__, request, blame_job.Answer, timeout_s=seconds, key=key)


def _operator_ms(run: FinishedRun) -> tuple[dict[str, float], ...]:
    """Milliseconds of a run by operator; empty where the runtime says nothing of its nodes, or no time is left."""
    lab, count = run.lab, len(run.models)
    if not lab.setup.target.timed or not count:
        return ()
    needed = _START_S + count * (_OPENED * lab.open_s + _RUNS * lab.run_s)
    left = min(_MOST_S, run.left_s(_SHARE))
    if needed > left:
        return ()
    try:
        found = lab.profiles(run.models, seconds=_RUN_S, within_s=left)
    except WorkerFailed:  # its figures are an extra: the run has proven what it delivers
        return ()
    return tuple(map(_by_operator, found))


def _by_operator(nodes: Sequence[NodeTime]) -> dict[str, float]:
    times: dict[str, float] = {}
    for node in nodes:
        times[node.operator] = times.get(node.operator, 0.0) + node.ms
    return dict(sorted(times.items(), key=lambda item: -item[1]))
