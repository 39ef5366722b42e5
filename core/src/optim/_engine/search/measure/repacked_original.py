"""What the original would take with its weights laid out anew, where it is timed with weights that stay mapped.

Of a model that is large beside the memory weights are read where they lie, in races too: several such copies would be
held at once. Whoever runs the original alone may have the memory for one, so the ratio flatters the result. Where one
copy fits, the original is timed once with it, in a lane beside the one that is mapped, when all else is done.
"""

from __future__ import annotations

from dataclasses import replace

from optim._engine.search.effort import Effort
from optim._engine.search.measure.racing import Wanted, race_candidates
from optim._engine.search.state import Measured
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError
from optim.goal import Basis
from optim.jobs.resources import free_memory_bytes
from optim.model import SessionConfig
from optim.providers.repacking import MOST_COPIED, mapped_config

_COPIED = SessionConfig(session_config={"session.disable_prepacking": "0"})

_ROOM, _BESIDE_BYTES = 1.2, 1 << 30
"""Times its size, and bytes, that must be free: the copy, what it computes with, and the mapped pages of both lanes."""

_OPENED, _RUNS = 2, 8
"""Lanes that open it, and runs of three rounds of both with one before."""

_START_S = 1.0


def repacked_original(bench: Workbench, result: Measured | None) -> str:
    """A note with the ratio to the original with a copy of its weights.

    Args:
        bench: of the run.
        result: what is delivered.

    Returns:
        Nothing where the original is not timed mapped, where nothing faster is delivered, or where there is no memory
        or no time for a copy.
    """
    if result is None or result.ratio is None or result.candidate.is_original or result.candidate.recast is not None:
        return ""
    ratio, original = result.ratio, bench.original
    if bench.goal.basis is not Basis.CALLS or not mapped_config(original.model.path, bench.target):
        return ""
    left_s = bench.deadline.spare_s
    needed_s = _START_S + _OPENED * bench.prepared.open_s + _RUNS * bench.prepared.run_s
    if not _fits(bench) or needed_s > left_s:
        return ""
    bench.say("timing the original with repacked weights")
    copied = replace(original, model=original.model.with_session(original.model.session.updated(_COPIED)))
    effort = Effort(2.0, least_rounds=3, most_rounds=7, drop=False, fresh=False, most_samples=1, whole_s=left_s)
    try:
        found = race_candidates(bench, [copied], effort, Wanted("repacked", plain=True))[1][0].ratio
    except OptimError:  # it ran before: a look more is worth no failed run
        return ""
    if found is None:
        return ""
    interval = f" (95 % interval {found.low:.2f} to {found.high:.2f})" if found.interval else ""
    figures = f"{found.value:.2f} of that time{interval}"
    return (
        f"with repacked weights, which need memory for a copy, the original takes {figures}, timed once; "
        f"compared with that time the ratio is {ratio / found.value:.2f}"
    )


def _fits(bench: Workbench) -> bool:
    """Whether one copy of the weights has room, here."""
    size = bench.original.size_bytes
    free = free_memory_bytes()
    return bench.elsewhere is None and size <= MOST_COPIED and _ROOM * size + _BESIDE_BYTES <= free
