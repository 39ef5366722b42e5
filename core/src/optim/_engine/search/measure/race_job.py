"""A race, or a look at one model, as a job for another machine: its lanes are processes there."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from optim._engine.gate.budget import Budget
from optim._engine.jobs import lane
from optim._engine.jobs.start_up import Ready
from optim._engine.search.effort import Effort
from optim._engine.search.measure.race import race
from optim._engine.search.measure.race_lanes import look
from optim._engine.search.state import LaneResult
from optim._engine.search.turns import Turns

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
    """What :func:`optim._engine.search.measure.race.race` is told.

    Attributes:
        base: see there.
        lanes: see there.
        effort: see there; None: the base is looked at, and nothing is timed.
        seed: see there.
        admission: see there.
        timeout_s: for a look.
        opens_beside: whether lanes may be opened while another run has the clock: there is memory for both.
    """

    base: lane.Request
    lanes: tuple[lane.Request, ...]
    effort: Effort | None
    seed: int
    admission: Admission | None = None
    timeout_s: float = 0.0
    opens_beside: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What it returns."""

    base: LaneResult
    lanes: tuple[LaneResult, ...]

    @property
    def processor_s(self) -> float:
        """Seconds of the processes of all lanes."""
        return sum(one.processor_s for one in (self.base, *self.lanes))


def run(request: Request, turns: Turns) -> Answer:
    """Have the race, or the look.

    Args:
        request: what is asked.
        turns: at the machine's clock.

    Raises:
        WorkerFailed: the base itself does not run.
    """
    if request.effort is None:
        turns.await_quiet_end()
        return Answer(look(request.base, request.timeout_s), ())
    if request.opens_beside:
        turns.await_quiet_end()
    with nullcontext() if request.opens_beside else turns.turn():
        base, lanes = race(
            request.base,
            request.lanes,
            request.effort,
            request.seed,
            request.admission,
            turns.turn if request.opens_beside else nullcontext,
        )
    return Answer(base, tuple(lanes))
