"""A race, or a look at one model, as a job for another machine: its lanes are processes there."""

from __future__ import annotations

from dataclasses import dataclass

from optim._engine.gate.budget import Budget
from optim._engine.jobs import lane
from optim._engine.jobs.lane import Ready
from optim._engine.search.effort import Effort
from optim._engine.search.measure.race import look, race
from optim._engine.search.state import LaneResult

MODULE = __name__


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may race: what is wrong would only make what is right look slow.

    Attributes:
        budget: what a candidate must keep within.
        lossy: whether each candidate is held to the budget, by its place; else to rounding.
    """

    budget: Budget
    lossy: tuple[bool, ...]

    def __call__(self, place: int, ready: Ready) -> bool:
        """Whether a candidate may race, by its place and what it said before."""
        budget = self.budget
        return not (
            budget.objection(ready.comparisons, self.lossy[place], ready.task) or budget.batch_objection(ready.batch)
        )


@dataclass(frozen=True, slots=True)
class Request:
    """What :func:`optim._engine.search.measure.race.race` is told; without an effort the base is looked at."""

    base: lane.Request
    lanes: tuple[lane.Request, ...]
    effort: Effort | None
    seed: int
    admission: Admission | None = None
    timeout_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What it returns."""

    base: LaneResult
    lanes: tuple[LaneResult, ...]


def run(request: Request) -> Answer:
    """Have the race, or the look.

    Raises:
        WorkerFailed: the base itself does not run.
    """
    if request.effort is None:
        return Answer(look(request.base, request.timeout_s), ())
    base, lanes = race(request.base, request.lanes, request.effort, request.seed, request.admission)
    return Answer(base, tuple(lanes))
