"""Time models against a base, round by round, and drop what is clearly beaten.

Each model runs in a fresh process of its own (a lane); those of what may be delivered are forks of a program that was
started for the race, so that their memory lies elsewhere each time. A round runs every lane once, in random order: an
untimed run and a burst of timed ones for each sample, whose median counts. Only one lane works at a time. A lane's
ratio is the geometric mean over samples of lane / base in the same round; rounds in which other processes took more
than 3 % of the machine are dropped, as long as enough others remain. Lanes are opened before the race has its turn at
the machine's clock: that takes as long as the rounds, and no time of it is compared. A race with patience for quiet
rounds asks other runs for quiet. As a job it runs on another machine too: its lanes are processes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import numpy as np

from optim._engine.gate.budget import Budget
from optim._engine.jobs.lane import Request as LaneRequest
from optim._engine.jobs.start_up import Ready
from optim._engine.search.measure.efforts import Effort
from optim._engine.search.measure.lane_figures import (
    generation_of,
    goal_ratio,
    median_interval,
    paired_ratio,
    sample_calls,
    throughput,
)
from optim._engine.search.measure.race_lanes import (
    Lane,
    LateLane,
    Rounds,
    look,
    open_lanes,
    paired_times,
    round_ratios,
    run_rounds,
)
from optim._engine.search.state import LaneResult
from optim._engine.search.turns import Turns, quiet
from optim.jobs.process import WorkerFailed

MODULE = __name__

Turn = Callable[[], AbstractContextManager[None]]


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
        budget, lossy = self.budget, self.lossy[place]
        return not (
            budget.objection(ready.comparisons, lossy, ready.task)
            or budget.batch_objection(ready.batch)
            or budget.unseen_objection(ready.unseen, lossy)
        )


@dataclass(frozen=True, slots=True)
class Request:
    """What is timed against what.

    Attributes:
        base: what the others are timed against.
        lanes: the others.
        effort: how long to look; None: the base is looked at, and nothing is timed.
        seed: of the order in a round.
        admission: which lanes may race; all do by default.
        timeout_s: for a look.
        opens_beside: whether lanes may be opened while another run has the clock: there is memory for both.
    """

    base: LaneRequest
    lanes: tuple[LaneRequest, ...]
    effort: Effort | None
    seed: int
    admission: Admission | None = None
    timeout_s: float = 0.0
    opens_beside: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The base's own result, whose ratio is 1, and one result a lane, in order."""

    base: LaneResult
    lanes: tuple[LaneResult, ...]

    @property
    def processor_s(self) -> float:
        """Seconds of the processes of all lanes."""
        return sum(one.processor_s for one in (self.base, *self.lanes))


def run(request: Request, turns: Turns) -> Answer:
    """Have the race, or the look.

    Raises:
        WorkerFailed: the base itself does not run.
    """
    if request.effort is None:
        turns.await_quiet_end()
        return Answer(look(request.base, request.timeout_s), ())
    if request.opens_beside:
        turns.await_quiet_end()
        return race(request, request.effort, turns.turn)
    with turns.turn():
        return race(request, request.effort)


def race(request: Request, effort: Effort, turn: Turn = nullcontext) -> Answer:
    """Time lanes against the base.

    If the time is over before the base is open, nothing has figures; each result says so.

    Args:
        request: the lanes.
        effort: how long to look.
        turn: at the machine's clock, for the rounds; whoever has it already leaves it out.

    Raises:
        WorkerFailed: the base itself does not run.
    """
    started = time.monotonic()
    end = started + effort.whole_s
    opened = open_lanes(request.base, request.lanes, effort, end)
    open_s = (time.monotonic() - started) / len(opened)
    try:
        if isinstance(opened[0], LateLane):
            unopened = LaneResult(open_s=open_s, cut_short=True, out_of_time=True, late=opened[0].late)
            return Answer(unopened, tuple(LaneResult(out_of_time=True) for _ in request.lanes))
        if isinstance(opened[0], WorkerFailed):
            raise opened[0]
        running = {i: lane for i, lane in enumerate(opened) if isinstance(lane, Lane)}
        for i, one in running.items():
            one.racing = i == 0 or request.admission is None or request.admission(i - 1, one.ready)
        asked = time.monotonic()
        with turn(), quiet() if effort.patience_s else nullcontext():
            rounds = run_rounds(running, effort, request.seed, end + time.monotonic() - asked)
    finally:
        for lane in opened:
            if isinstance(lane, Lane):
                lane.worker.close()
    results = []
    for i, lane in enumerate(opened):
        if isinstance(lane, LateLane):
            results.append(LaneResult(out_of_time=True, late=lane.late))
        elif isinstance(lane, WorkerFailed):
            results.append(LaneResult(lane.reason, late=lane.reason if lane.kind == "limit" else ""))
        elif i in rounds.failures:
            results.append(LaneResult(rounds.failures[i], lane.ready, late=rounds.late.get(i, "")))
        elif not lane.times:
            is_late = rounds.cut_short and lane.racing
            late = rounds.late.get(i, "")
            results.append(LaneResult("", lane.ready, out_of_time=is_late, late=late, processor_s=lane.processor_s))
        else:
            results.append(_figures(lane, running[0], rounds))
    base = replace(results[0], open_s=open_s, cut_short=rounds.cut_short)
    return Answer(base, tuple(results[1:]))


def _figures(lane: Lane, base: Lane, rounds: Rounds) -> LaneResult:
    """Times are those of the base times the ratios: what is shown side by side then says one thing."""
    own, other = paired_times(lane, base, rounds.kept)
    base_ms = np.median(paired_times(base, base, rounds.kept)[0], axis=0) * 1e3
    by_round = round_ratios(lane, base, rounds.kept)
    ratio = paired_ratio(by_round)
    own_ms = np.exp(np.log(own).mean(axis=1)) * 1e3
    each = tuple(paired_ratio(own[:, i].tolist(), other[:, i].tolist()) for i in range(own.shape[1]))
    return LaneResult(
        ready=lane.ready,
        ratio=ratio,
        disturbed=rounds.disturbed,
        latency_ms=float(np.exp(np.log(base_ms).mean())) * ratio.value,
        latency_ci_ms=median_interval(own_ms),
        sample_ms=tuple(ms * one.value for ms, one in zip(base_ms.tolist(), each, strict=True)),
        sample_ratio=each,
        generation=generation_of([lane.goal[r] for r in rounds.kept if r < len(lane.goal)]),
        goal=goal_ratio(lane.goal, base.goal, rounds.kept),
        sample_calls=sample_calls(lane.calls, rounds.kept),
        throughput=throughput(lane.goal, rounds.kept),
        round_ratios=tuple(round(one, 5) for one in by_round),
        doubt=lane.doubt,
        round_s=lane.spent_s / len(lane.times),
        processor_s=lane.processor_s,
    )
