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
from typing import Any

import counted_clock
import pytest
from counted_seconds import JOB_S, CountedSeconds
from jobs_here import _Here, done_here

from optim._engine.jobs import lane
from optim._engine.search import preparation, workbench
from optim._engine.search.measure import race_job
from optim._engine.search.turns import Turns
from optim_plugins.diagnose.profile import profile_job

_READING_S = 1e-4


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

    with pytest.MonkeyPatch.context() as patch, counted_clock.counted(), done_here():
        patch.setattr(race_job, "server_apart", lambda _: nullcontext())
        patch.setattr(_Here, "result", result)
        patch.setattr(workbench, "_AT_ONCE", 1)
        patch.setattr(preparation, "Turns", lambda *given, **how: Turns(*given, **{**how, "now": seconds}))
        patch.setattr(lane, "peak_memory_bytes", lambda: next(mebibytes) << 20)
        patch.setattr(profile_job, "_MEASURED_S", 0.0)  # each call takes one reading: a second would have 5,000
        two_processors(patch)
        for clock in ("monotonic", "perf_counter"):
            patch.setattr(time, clock, lambda: _READING_S * next(readings))
        yield patch
