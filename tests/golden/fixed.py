"""A machine without noise: clocks count how often they are read, and jobs and lanes run in this process.

``time.monotonic`` and ``time.perf_counter`` advance by 0.1 ms with each reading, the clock of the search by one second
with each job. A round of a lane takes what its nodes take by ``counted_clock``. Peaks of memory grow by 1 MiB with each
reading. There are two processors.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import counted_clock
import pytest
from counted_seconds import JOB_S, CountedSeconds
from jobs_here import _ONE_AT_A_TIME, _Channel, _Here, done_here

from optim._engine.jobs import lane
from optim._engine.jobs.start_up import Ready
from optim._engine.search import preparation, workbench
from optim._engine.search.measure import race_lanes
from optim._engine.search.turns import Turns
from optim.jobs.process import WorkerFailed, _raised
from optim.jobs.wire import from_wire
from optim.jobs.worker import describe_error

_READING_S = 1e-4


class _NoRounds(_Channel):
    """The worker's side of a lane that is asked for no round."""

    def receive(self) -> dict[str, Any]:
        return {}


def _open_lane(request: lane.Request, *_: Any, **__: Any) -> race_lanes.Lane | WorkerFailed:
    """A lane in this process: opened and compared as ever, and closed before the race."""
    said: list[dict[str, Any]] = []
    with _ONE_AT_A_TIME:
        try:
            lane.run(request, _NoRounds(said.append))
        except Exception as error:
            return _raised(describe_error(error), "")
    return race_lanes.Lane(
        SimpleNamespace(close=lambda: None), from_wire(Ready, said[0]["ready"]), processor_s=said[0]["cpu_s"]
    )


def two_processors(patch: pytest.MonkeyPatch) -> None:
    """Have this process find two processors."""
    patch.setattr(os, "cpu_count", lambda: 2)
    patch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)


@contextmanager
def fixed_machine() -> Iterator[pytest.MonkeyPatch]:
    """Every command within runs on such a machine."""
    readings, mebibytes, seconds, done = itertools.count(1), itertools.count(1), CountedSeconds(), _Here.result

    def result(job: _Here, *args: Any, **kwargs: Any) -> Any:
        seconds.pass_by(JOB_S)
        return done(job, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counted_clock, "opened", _open_lane)
        with counted_clock.counted(), done_here():
            patch.setattr(race_lanes, "server_apart", lambda _: nullcontext())
            patch.setattr(_Here, "result", result)
            patch.setattr(workbench, "_AT_ONCE", 1)
            patch.setattr(preparation, "Turns", lambda *given, **how: Turns(*given, **{**how, "now": seconds}))
            patch.setattr(lane, "peak_memory_bytes", lambda: next(mebibytes) << 20)
            two_processors(patch)
            for clock in ("monotonic", "perf_counter"):
                patch.setattr(time, clock, lambda: _READING_S * next(readings))
            yield patch
