"""How long the isolated worker of neural-compressor takes to start, and what a job costs beside its own work.

Run it on a quiet machine, after ``optim plugins install inc``: ``python benchmarks/runs/isolated_worker.py``. The work
is dynamic quantization of a small model, timed inside the worker; what a job costs is the time from the call to the
answer less that. Goals: start at most 4 s, a further job at most 0.3 s beside its work.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from optim.isolation import run_isolated
from optim.jobs.owner import ending_workers
from optim.testing import models
from optim_inc.environment import ISOLATION

ROUNDS, STARTS = 20, 5
_TIMED = """
import runpy, sys, time
globals().update(runpy.run_path({jobs!r}))
_quantize = quantize
def timed(request, host):
    started = time.perf_counter()
    _quantize(request, host)
    return time.perf_counter() - started
def nothing(request, host):
    return None
"""


def main() -> None:
    """Print the medians and the worst of both."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        jobs = folder / "timed_jobs.py"
        jobs.write_text(_TIMED.format(jobs=str(ISOLATION.jobs)))
        isolation = replace(ISOLATION, jobs=jobs)
        request = {
            "model": str(models.encoder(folder)),
            "output": str(folder / "out.onnx"),
            "config": {"approach": "dynamic"},
            "keep": [],
            "samples": [],
            "tuning": None,
        }
        starts, costs = [], []
        for _ in range(STARTS):
            with ending_workers():
                started = time.perf_counter()
                run_isolated(isolation, "nothing", None)
                starts.append(time.perf_counter() - started)
        with ending_workers():
            run_isolated(isolation, "timed", request)
            for _ in range(ROUNDS):
                started = time.perf_counter()
                work = run_isolated(isolation, "timed", request)
                costs.append(time.perf_counter() - started - work)
    print(f"start of the worker: median {statistics.median(starts):.2f} s, worst {max(starts):.2f} s (goal 4 s)")
    median, worst = statistics.median(costs), max(costs)
    print(f"a further job, beside its work: median {median:.4f} s, worst {worst:.4f} s (goal 0.3 s)")


if __name__ == "__main__":
    main()
