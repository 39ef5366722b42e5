"""The lanes of a race: a process for each model, opened before the race and run round by round."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from optim._engine.jobs.lane import JOB, Request
from optim._engine.jobs.start_up import Ready
from optim._engine.search.measure.efforts import Effort
from optim._engine.search.state import LaneResult
from optim._engine.search.taste import HANGS_S
from optim.goal import Figure
from optim.jobs.forked import Server
from optim.jobs.process import WorkerFailed, WorkerProcess, server_apart
from optim.jobs.wire import from_wire

_IMPORTED = (
    "numpy.random",
    "onnxruntime",
    "psutil",
    JOB.module,
    "optim.jobs.wire",
    "optim.onnx.sessions",
    "optim.providers.memory",
)
"""What a lane needs, for a server of its own: half of what other jobs do."""


class LateLane(WorkerFailed):
    """The time of the race was over before a lane was open: nothing speaks against its model.

    Attributes:
        late: what it was doing then, where it had begun.
    """

    def __init__(self, late: str = "") -> None:
        super().__init__("the run ended before it was open", "timeout")
        self.late = late


@dataclass
class Lane:
    """A process with a model open, and what it measured.

    Attributes:
        ready: what it said when the model was open.
        times: by round, by sample, in seconds.
        calls: the same, of every call.
        goal: by round; empty where the goal has no clock of its own.
        racing: whether further rounds run it.
        by_wall: whether it is timed by the wall's clock, and not by its device's.
        doubt: what the device's clock said of a run and what the wall's did, in seconds, if they contradict each other.
        spent_s: seconds of all its rounds.
        processor_s: of the process so far.
    """

    worker: WorkerProcess
    ready: Ready
    times: list[list[float]] = field(default_factory=list)
    calls: list[list[list[float]]] = field(default_factory=list)
    goal: list[Figure] = field(default_factory=list)
    racing: bool = True
    spent_s: float = 0.0
    processor_s: float = 0.0
    by_wall: bool = False
    doubt: tuple[float, float] | None = None

    def time_by_wall(self) -> None:
        """Forget what was timed, and go on by the wall's clock."""
        self.by_wall, self.spent_s = True, 0.0
        for rounds in (self.times, self.calls, self.goal):
            rounds.clear()


def open_lanes(base: Request, lanes: Sequence[Request], effort: Effort, end: float) -> list[Lane | WorkerFailed]:
    """Open the base and all lanes, two at a time: nothing is timed yet. Without the base there is no race."""
    ready: list[Lane] = []

    def open_one(request: Request) -> Lane | WorkerFailed:
        patient = request.model.digest == base.model.digest and request.comparison.place == base.comparison.place
        timeout_s = min(HANGS_S if patient else effort.open_timeout_s, end - time.monotonic())
        if timeout_s <= 0:
            return LateLane()
        opened = open_lane(request, timeout_s, fresh=effort.fresh, server=server)
        if isinstance(opened, WorkerFailed) and opened.kind == "timeout" and time.monotonic() >= end:
            return LateLane(opened.reason if opened.call is not None and opened.call.first else "")
        if isinstance(opened, Lane):
            ready.append(opened)
        return opened

    try:
        with server_apart(_IMPORTED) if effort.fresh else nullcontext() as server, ThreadPoolExecutor(2) as pool:
            return [_said_beside(lane) for lane in pool.map(open_one, [base, *lanes])]
    except BaseException:
        for lane in ready:
            lane.worker.close()
        raise


def _said_beside(lane: Lane | WorkerFailed) -> Lane | WorkerFailed:
    """A backend that did not open a model beside others may have a device that takes one; then it has to say so."""
    if not isinstance(lane, WorkerFailed) or lane.error is None or lane.error.reference != "backend-failed":
        return lane
    cause = f"{lane.error.cause}; other models were open too: a device for one model needs Backend.exclusive"
    error = replace(lane.error, cause=cause)
    return replace(lane, reason=f"{error.what}: {cause}", error=error)


def look(request: Request, timeout_s: float) -> LaneResult:
    """Open and compare one model without timing it; holds no clock."""
    opened = open_lane(request, timeout_s, fresh=False)
    if isinstance(opened, WorkerFailed):
        return LaneResult(opened.reason, out_of_time=opened.kind == "timeout")
    opened.worker.close()
    return LaneResult(ready=opened.ready, processor_s=opened.processor_s)


def open_lane(request: Request, timeout_s: float, *, fresh: bool, server: Server | None = None) -> Lane | WorkerFailed:
    """A model in a process of its own, compared, or why there is none."""
    worker = JOB.start(request, fresh=fresh, server=server)
    try:
        message = worker.receive(timeout_s)
        return Lane(worker, from_wire(Ready, message["ready"]), processor_s=message["cpu_s"])
    except WorkerFailed as failed:
        worker.close()
        return failed
    except BaseException:
        worker.close()
        raise


def run_lane(lane: Lane, timeout_s: float) -> float:
    """One round of one lane; the processor seconds it used."""
    began = time.monotonic()
    lane.worker.send({"go": True, "by_wall": lane.by_wall})
    answer = lane.worker.receive(timeout_s)
    lane.spent_s += time.monotonic() - began
    lane.processor_s += answer["cpu_s"]
    lane.times.append([float(np.median(burst)) for burst in answer["seconds"]])
    lane.calls.append(answer["seconds"])
    if answer.get("doubt"):
        lane.doubt = tuple(answer["doubt"])
    if answer.get("goal"):
        lane.goal.append(from_wire(Figure, answer["goal"]))
    return float(answer["cpu_s"])
