"""The times of the nodes of some models: opened beside others, run at the run's own turn at the clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from optim._engine.search.turns import Turns
from optim._engine.timing import nodes_job
from optim.jobs.process import WorkerProcess
from optim.jobs.wire import from_wire

MODULE = __name__
Answer = nodes_job.Answer


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked.

    Attributes:
        timeout_s: for all of it but the wait for the clock.
    """

    asked: nodes_job.Request
    timeout_s: float


def run(request: Request, turns: Turns) -> Answer:
    """Have the models profiled."""
    turns.await_quiet_end()
    end = turns.now() + request.timeout_s
    with nodes_job.JOB.start(request.asked) as worker:
        while "result" not in (message := _next(worker, turns, end)):
            if message.get("event") == nodes_job.OPEN:
                with turns.turn():
                    worker.send({"go": True})
                    while _next(worker, turns, end).get("event") != nodes_job.RAN:
                        pass
        return from_wire(Answer, message["result"])


def _next(worker: WorkerProcess, turns: Turns, end: float) -> dict[str, Any]:
    return worker.receive(max(0.0, end - turns.now()))
