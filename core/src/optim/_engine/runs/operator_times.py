"""Where the time of the original and of the result goes, operator by operator: one short profile of each."""

from __future__ import annotations

import math

from optim._engine.diagnosis.timing import operators_job
from optim._engine.search.lane_costs import LaneCosts
from optim._engine.search.measure import operators_timed
from optim._engine.search.measure.racing import where_timed
from optim._engine.search.state import Candidate
from optim._engine.search.workbench import Workbench
from optim.jobs.process import WorkerFailed

_START_S = 0.5
"""A process of its own, and reading two profiles."""

_OPENED = 2
"""Times that each model is opened: with and without the profiler."""

_SHARE = 0.04
"""Of the run, what this may take beyond it, within what the proof may: on a busy machine little else is left."""

_RUNS = 8.0
"""Of each model: six, and what the profiler adds."""

_MOST_S = 20.0
"""What is begun ends after that at the latest: it hangs."""


def operator_times(bench: Workbench, won: Workbench, result: Candidate | None) -> tuple[dict[str, float], ...]:
    """Milliseconds of a run by operator: of the original, and of the result where that is another model.

    Empty where the runtime of the target says nothing of its nodes, where nothing is timed, or where no time is left.

    Args:
        bench: where the original is.
        won: where the result is: the same, or another target.
        result: what is delivered.
    """
    target, time = bench.target, bench.deadline
    if not target.timed:
        return ()
    models = [operators_job.Fed(bench.entry or bench.original.model, bench.place)]
    if result is not None and not result.is_original and result.recast is None:
        models.append(operators_job.Fed(result.model, won.place, result.interfaces))  # a recast is fed something else
    needed = _START_S + len(models) * (_OPENED * bench.prepared.open_s + _RUNS * bench.prepared.run_s)
    share_s = 0.0 if math.isinf(time.announced_s) else _SHARE * time.announced_s
    left = min(_MOST_S, max(min(share_s, time.end_s), time.spare_s))
    if needed > left:
        return ()
    sample = bench.prepared.timed[0]
    seconds = LaneCosts.pace * operators_job.LOOK_S
    request = operators_job.Request(tuple(models), bench.reference.feeds, sample, seconds)
    key = bench.keys.operator_times([(one.model, one.place.target) for one in models], sample)
    known = bench.runner.known(key, operators_timed.Answer)
    if known is not None:
        return known.models
    wanted = operators_timed.Request(request, left)
    try:
        answer = where_timed(bench, operators_timed, wanted, operators_timed.Answer)
    except WorkerFailed:  # its figures are an extra: the run has proven what it delivers
        return ()
    bench.runner.count += 1
    bench.runner.keep(key, answer)
    return answer.models
