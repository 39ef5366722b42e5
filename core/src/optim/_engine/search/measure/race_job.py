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

import math
import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from optim._engine.gate.budget import Budget
from optim._engine.jobs.lane import JOB
from optim._engine.jobs.lane import Request as LaneRequest
from optim._engine.jobs.start_up import Ready
from optim._engine.search.lane_costs import LEAST_ROUNDS
from optim._engine.search.measure.lane_figures import (
    goal_ratio,
    median_interval,
    paired_ratio,
    sample_calls,
    throughput,
)
from optim._engine.search.state import LaneResult
from optim._engine.search.taste import HANGS_S, WORTH
from optim._engine.search.turns import Turns, quiet
from optim.goal import FASTER, ROUNDS_FOR_95, Figure, GenerationTimes, Ratio
from optim.jobs.fork_server import Server
from optim.jobs.process import WorkerFailed, WorkerProcess, server_apart
from optim.jobs.wire import from_wire

MODULE = __name__

ROUNDS, MOST_ROUNDS, WIDTH = 10, 40, 0.015
"""For a race of what may be delivered: number of rounds, and width of the best interval as a share of the ratio.
A look has half of the rounds, and twice the width."""

_IMPORTED = (
    "numpy.random",
    "onnxruntime",
    "psutil",
    JOB.module,
    "optim.jobs.wire",
    "optim.onnx.sessions",
    "optim.providers.memory",
)
"""Modules that a lane needs, for a server of its own: half of what other jobs need."""

_FOREIGN_SHARE = 0.03
"""Share of the machine that others may use in a round that counts: less drops rounds, more widens intervals."""

_NEXT_LOOK = 1.25
"""Times as many rounds as at a look at the intervals, when the next one is due. A race that ends at the first of many
looks at which its interval is narrow ends at a lucky one."""

_LEAST_WINDOW_S = 0.4
"""The kernel counts in hundredths of a second: a shorter look says nothing."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a race looks; :mod:`optim._engine.search.measure.clock` makes those of a search.

    Attributes:
        width: ends earlier when the best lane's interval is narrower than this share.
        gain_width: ends earlier, too, when it is narrower than this share of what the best lane gains or loses, and no
            other lane can be as good: half the time need not be known to a hundredth of it.
        open_timeout_s: for opening, comparing and warming up.
        patience_s: how much longer to wait for enough quiet rounds where other processes use the machine.
        fresh: whether lanes are forks of a program that is started for this race, where there are forks, else programs.
            The memory of forks of one server lies where it lay in the last race: what is delivered is timed elsewhere.
        most_samples: so many of the shapes are timed; None: all.
        decides: whether rounds go on while noise leaves open if the best is faster.
        decide_s: how much longer they do at most.
        whole_s: for all of it, opening included: what is not known by then stays unknown, and a round that was begun
            does not count.
    """

    seconds: float
    least_rounds: int = ROUNDS
    most_rounds: int = MOST_ROUNDS
    width: float = WIDTH
    gain_width: float = 0.0
    drop: bool = True
    open_timeout_s: float = 300.0
    patience_s: float = 0.0
    fresh: bool = True
    most_samples: int | None = None
    decides: bool = False
    decide_s: float = 0.0
    whole_s: float = math.inf


@dataclass(frozen=True, slots=True)
class Admission:
    """Who may race: what is wrong would only make what is right look slow.

    Attributes:
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
        effort: how long to look; None: the base is looked at, and nothing is timed.
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
    """Have the race, or the look."""
    if request.effort is None:
        turns.await_quiet_end()
        return Answer(_look(request.base, request.timeout_s), ())
    if request.opens_beside:
        turns.await_quiet_end()
        return race(request, request.effort, turns.turn)
    with turns.turn():
        return race(request, request.effort)


def _look(request: LaneRequest, timeout_s: float) -> LaneResult:
    """Open and compare one model without timing it; holds no clock."""
    try:
        lane = open_lane(request, timeout_s, fresh=False)
    except WorkerFailed as failed:
        return LaneResult(failed.reason, out_of_time=failed.kind == "timeout")
    lane.worker.close()
    return LaneResult(ready=lane.ready, processor_s=lane.processor_s)


def race(request: Request, effort: Effort, turn: Callable[[], AbstractContextManager[None]] = nullcontext) -> Answer:
    """Time lanes against the base.

    If the time is over before the base is open, nothing has figures; each result says so. Whoever has a turn at the
    machine's clock already leaves ``turn`` out.
    """
    started = time.monotonic()
    end = started + effort.whole_s
    opened = open_lanes(request.base, request.lanes, effort, end)
    open_s = (time.monotonic() - started) / len(opened)
    base, running = opened[0], [one for one in opened if isinstance(one, Lane)]
    try:
        if isinstance(base, LaneResult):
            return Answer(replace(base, open_s=open_s), tuple(LaneResult(out_of_time=True) for _ in request.lanes))
        for place, one in enumerate(opened[1:]):
            if isinstance(one, Lane) and request.admission is not None:
                one.racing = request.admission(place, one.ready)
        asked = time.monotonic()
        with turn(), quiet() if effort.patience_s else nullcontext():
            rounds = run_rounds(running, effort, request.seed, end + time.monotonic() - asked)
    finally:
        for lane in running:
            lane.worker.close()
    first, *others = [_result(one, base, rounds) if isinstance(one, Lane) else one for one in opened]
    return Answer(replace(first, open_s=open_s), tuple(others))


# lanes


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
        late: what it was doing when the time or its limit was over, and it had not come back.
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
    failure: str = ""
    late: str = ""

    def time_by_wall(self) -> None:
        """Forget what was timed, and go on by the wall's clock."""
        self.by_wall, self.spent_s = True, 0.0
        self.forget(0)

    def forget(self, rounds: int) -> None:
        """Keep so many rounds."""
        del self.times[rounds:], self.calls[rounds:], self.goal[rounds:]


def open_lanes(base: LaneRequest, lanes: Sequence[LaneRequest], effort: Effort, end: float) -> list[Lane | LaneResult]:
    """Open the base and all lanes, two at a time: nothing is timed yet.

    Returns:
        A lane for each, or why there is none. A model that was not open in time is none to object to.

    Raises:
        WorkerFailed: the base does not run, and so there is no race.
    """
    ready: list[Lane] = []

    def open_one(request: LaneRequest) -> Lane | LaneResult:
        patient = request.model.digest == base.model.digest and request.comparison.place == base.comparison.place
        timeout_s = min(HANGS_S if patient else effort.open_timeout_s, end - time.monotonic())
        if timeout_s <= 0:
            return LaneResult(out_of_time=True)
        try:
            lane = open_lane(request, timeout_s, fresh=effort.fresh, server=server)
        except WorkerFailed as failed:
            if failed.kind == "timeout" and time.monotonic() >= end:
                had_begun = failed.call is not None and failed.call.first
                return LaneResult(out_of_time=True, late=failed.reason if had_begun else "")
            failed = _said_beside(failed)
            if request is base:
                raise failed from None
            return LaneResult(failed.reason, late=failed.reason if failed.kind == "limit" else "")
        ready.append(lane)
        return lane

    try:
        with server_apart(_IMPORTED) if effort.fresh else nullcontext() as server, ThreadPoolExecutor(2) as pool:
            return list(pool.map(open_one, [base, *lanes]))
    except BaseException:
        for lane in ready:
            lane.worker.close()
        raise


def _said_beside(failed: WorkerFailed) -> WorkerFailed:
    """A backend that did not open a model beside others may have a device that takes one; then it has to say so."""
    if failed.error is None or failed.error.reference != "backend-failed":
        return failed
    cause = f"{failed.error.cause}; other models were open too: a device for one model needs Backend.exclusive"
    error = replace(failed.error, cause=cause)
    return replace(failed, reason=f"{error.what}: {cause}", error=error)


def open_lane(request: LaneRequest, timeout_s: float, *, fresh: bool, server: Server | None = None) -> Lane:
    """A model in a process of its own, compared.

    Raises:
        WorkerFailed: why there is none.
    """
    worker = JOB.start(request, fresh=fresh, server=server)
    try:
        message = worker.receive(timeout_s)
        return Lane(worker, from_wire(Ready, message["ready"]), processor_s=message["cpu_s"])
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


# rounds


def run_rounds(lanes: Sequence[Lane], effort: Effort, seed: int, end: float) -> Rounds:
    """Rounds until the answer is clear, or the time is spent; at ``end`` none goes on.

    If the clock of one lane's device contradicts the wall's, all of them are timed by the wall's from the beginning:
    times of two clocks have no ratio.
    """
    rounds = Rounds(lanes, effort, random.Random(seed), min(end, time.monotonic() + effort.seconds), end)
    for number in range(effort.most_rounds * 3):
        began = time.monotonic()
        if not rounds.run(number):
            break
        if any(lane.doubt and not lane.by_wall for lane in lanes):
            for lane in lanes:
                lane.time_by_wall()
            return run_rounds(lanes, effort, seed, end)
        if rounds.is_over(number + 1, half_a_round_s=(time.monotonic() - began) / 2):
            break
    return rounds


class NoiseWatch:
    """Share of the machine's processors that others used, window by window."""

    def __init__(self) -> None:
        self._start = _busy_s()
        self._since = time.perf_counter()
        self._own_s = 0.0
        self._self_s = time.process_time()

    def add_own(self, cpu_s: float) -> None:
        """Processor time that the timed processes report as theirs."""
        self._own_s += cpu_s

    def foreign_share(self) -> float | None:
        """Share 0..1 used by others since the window began, which then begins anew; None while it is too short."""
        elapsed = time.perf_counter() - self._since
        if elapsed < _LEAST_WINDOW_S:
            return None
        busy = _busy_s()
        own = self._own_s + time.process_time() - self._self_s
        share = max(0.0, (busy - self._start) - own) / (elapsed * (os.cpu_count() or 1))
        self._start, self._since, self._own_s, self._self_s = busy, time.perf_counter(), 0.0, time.process_time()
        return share


def _busy_s() -> float:
    """Seconds that all processors together have been busy or stolen since boot."""
    import psutil

    times = psutil.cpu_times()._asdict()
    counted = ("user", "nice", "system", "irq", "softirq", "steal", "interrupt", "dpc")
    return float(sum(times.get(name, 0.0) for name in counted))


@dataclass
class Rounds:
    """The rounds of a race, while it goes on and when it is over.

    Attributes:
        deadline: when what was asked for is spent; the race goes on only for what is still open.
        cut_short: whether rounds ended because the time of the run did.
        quiet: rounds in which others left the machine alone.
        window: rounds of which that is not known yet.
    """

    lanes: Sequence[Lane]
    effort: Effort
    order: random.Random
    deadline: float
    end: float
    watch: NoiseWatch = field(default_factory=NoiseWatch)
    cut_short: bool = False
    quiet: list[int] = field(default_factory=list)
    window: list[int] = field(default_factory=list)
    standing: Leader | None = None
    next_look: int = 0

    @property
    def kept(self) -> list[int]:
        """Places of the rounds that count: quiet ones, or all of them if too few were quiet."""
        found, count = self.quiet + self.window, len(self.lanes[0].times)
        return found if len(found) >= min(self.effort.least_rounds, count) else list(range(count))

    @property
    def disturbed(self) -> float:
        """Share of rounds that others disturbed."""
        total = len(self.lanes[0].times)
        return 1 - len(self.quiet + self.window) / total if total else 0.0

    def run(self, number: int) -> bool:
        """Run a round, and see whether others disturbed it; False where the time ended it, and it is forgotten."""
        base, alive = self.lanes[0], [lane for lane in self.lanes if lane.racing]
        self.order.shuffle(alive)
        for lane in alive:
            if time.monotonic() >= self.end:
                break
            given_s = min(HANGS_S, self.end - time.monotonic())
            try:
                self.watch.add_own(run_lane(lane, given_s))
            except WorkerFailed as failed:
                if failed.kind == "timeout" and time.monotonic() >= self.end:
                    base_round_s = base.spent_s / len(base.times) if base.times else 0.0
                    if not lane.times and failed.call is not None and given_s >= base_round_s:
                        lane.late = failed.reason
                    break
                if lane is base:
                    raise
                lane.failure, lane.racing = failed.reason, False
                if failed.kind == "limit":
                    lane.late = failed.reason
        if time.monotonic() >= self.end and any(one.racing and len(one.times) <= number for one in alive):
            for one in alive:
                one.forget(number)
            self.cut_short = True
            return False
        self.window.append(number)
        share = self.watch.foreign_share()
        if share is not None:
            self.quiet += self.window if share <= _FOREIGN_SHARE else []
            self.window = []
        return True

    def is_over(self, count: int, half_a_round_s: float) -> bool:
        """Whether no further round is run; one is begun where more than half of it is in time."""
        effort, enough = self.effort, count >= self.effort.least_rounds
        alone = len(self.lanes) > 1 and not any(lane.racing for lane in self.lanes[1:])
        if alone and count >= min(LEAST_ROUNDS, effort.least_rounds):  # nothing was admitted, or all died
            return True
        begun_by = time.monotonic() + half_a_round_s
        spent_s = begun_by - self.deadline
        if count >= self.next_look and (enough or spent_s > 0):
            self.standing = self._judged()
            self.next_look = next_look_after(count)
        undecided = effort.decides and (self.standing is None or self.standing.may_be_faster)
        patience_s = effort.patience_s if len(self.quiet) < effort.least_rounds else 0.0
        is_spent = spent_s > max(patience_s, effort.decide_s if undecided else 0.0)
        if is_spent and (enough or count >= (ROUNDS_FOR_95 if undecided else LEAST_ROUNDS)):
            return True  # with fewer rounds there is no interval, and so no answer
        if begun_by > self.end:
            self.cut_short = True
            return True
        if self.standing is not None and self.standing.is_clear(effort):
            return True
        return len(self.quiet) >= effort.most_rounds and not undecided

    def _judged(self) -> Leader | None:
        """How the best lane stands by the goal's clock; lanes that are clearly beaten stop racing."""
        base, kept = self.lanes[0], self.kept
        ratios = [
            (one, goal_ratio(one.goal, base.goal, kept) or paired_ratio(round_ratios(one, base, kept)))
            for one in self.lanes[1:]
            if one.racing
        ]
        if not ratios:
            return None
        best = min((ratio for _, ratio in ratios), key=lambda ratio: ratio.value)
        for one, ratio in ratios:
            if self.effort.drop and ratio is not best and ratio.low * WORTH > best.high:
                one.racing = False
        rivals = [ratio for one, ratio in ratios if ratio is not best and one.racing]
        return Leader(best, alone=all(ratio.low > best.high for ratio in rivals))


def round_ratios(lane: Lane, base: Lane, kept: list[int]) -> list[float]:
    """A lane's ratio to the base of each round: the geometric mean over samples."""
    own, other = paired_times(lane, base, kept)
    ratios: list[float] = np.exp((np.log(own) - np.log(other)).mean(axis=1)).tolist()
    return ratios


def paired_times(lane: Lane, base: Lane, kept: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Times of the same rounds, (rounds, samples); a lane that left early has only its own rounds."""
    rounds = [r for r in kept if r < len(lane.times)] or list(range(len(lane.times)))
    return np.asarray([lane.times[r] for r in rounds]), np.asarray([base.times[r] for r in rounds])


@dataclass(frozen=True, slots=True)
class Leader:
    """How a race stands.

    Attributes:
        alone: whether no other lane that still races can be as good: their intervals lie above its own.
    """

    best: Ratio
    alone: bool

    @property
    def may_be_faster(self) -> bool:
        """Whether noise leaves it open if the best is faster, and more rounds may tell.

        If the median is no faster, and the interval leaves no gain that is worth them, they do not.
        """
        return self.best.is_undecided and (self.best.low <= WORTH or self.best.value < FASTER)

    def is_clear(self, effort: Effort) -> bool:
        """Whether the best lane's ratio is known as well as is asked for."""
        best = self.best
        if best.rounds < effort.least_rounds or (effort.decides and self.may_be_faster):
            return False
        if effort.decides and best.is_undecided:
            return True  # hardly faster if at all: more rounds are not worth their time
        of_gain = effort.gain_width * abs(1 - best.value) if self.alone else 0.0
        return best.high - best.low < max(effort.width * best.value, of_gain)


def next_look_after(rounds: int) -> int:
    """After how many rounds intervals are looked at again, where they have been after so many."""
    return math.ceil(_NEXT_LOOK * rounds)


# figures


def _result(lane: Lane, base: Lane, rounds: Rounds) -> LaneResult:
    """The result of a lane that was open."""
    if lane.failure:
        return LaneResult(lane.failure, lane.ready, late=lane.late)
    if not lane.times:
        is_late = rounds.cut_short and lane.racing
        return LaneResult("", lane.ready, out_of_time=is_late, late=lane.late, processor_s=lane.processor_s)
    return _figures(lane, base, rounds)


def _figures(lane: Lane, base: Lane, rounds: Rounds) -> LaneResult:
    """Times are those of the base times the ratios: what is shown side by side then says one thing."""
    own, other = paired_times(lane, base, rounds.kept)
    base_ms = np.median(paired_times(base, base, rounds.kept)[0], axis=0) * 1e3
    by_round = round_ratios(lane, base, rounds.kept)
    ratio = paired_ratio(by_round)
    counted = [lane.goal[r] for r in rounds.kept if r < len(lane.goal)]
    answers = [one.generation for one in counted if one.generation is not None]
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
        generation=GenerationTimes.median(answers) if answers else None,
        goal=goal_ratio(lane.goal, base.goal, rounds.kept),
        sample_calls=sample_calls(lane.calls, rounds.kept),
        throughput=throughput(lane.goal, counted),
        round_ratios=tuple(round(one, 5) for one in by_round),
        doubt=lane.doubt,
        round_s=lane.spent_s / len(lane.times),
        processor_s=lane.processor_s,
    )
