"""The lanes of a race, a process for each model, and its rounds: every lane once, until the answer is clear.

Lanes are opened before the race. A round runs them in random order; rounds end when the time is over, too.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from optim._engine.jobs.lane import JOB, Request
from optim._engine.jobs.start_up import Ready
from optim._engine.search.lane_costs import LEAST_ROUNDS
from optim._engine.search.measure.efforts import Effort
from optim._engine.search.measure.lane_figures import goal_ratio, paired_ratio
from optim._engine.search.state import LaneResult
from optim._engine.search.taste import HANGS_S, WORTH
from optim.goal import FASTER, ROUNDS_FOR_95, Figure, Ratio
from optim.jobs.fork_server import Server
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

_FOREIGN_SHARE = 0.03
"""Share of the machine that others may use in a round that counts: less drops rounds, more widens intervals."""

_NEXT_LOOK = 1.25
"""Times as many rounds as at a look at the intervals, when the next one is due. A race that ends at the first of many
looks at which its interval is narrow ends at a lucky one."""

_LEAST_WINDOW_S = 0.4
"""The kernel counts in hundredths of a second: a shorter look says nothing."""


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


def run_rounds(lanes: dict[int, Lane], effort: Effort, seed: int, end: float) -> Rounds:
    """Rounds until the answer is clear, or the time is spent; at ``end`` none goes on.

    If the clock of one lane's device contradicts the wall's, all of them are timed by the wall's from the beginning:
    times of two clocks have no ratio.

    Args:
        lanes: by their place; that of the base is 0.
        effort: how long to look.
        seed: of the order in a round.
        end: by the monotonic clock.

    Raises:
        WorkerFailed: the base itself does not run.
    """
    rounds = Rounds(lanes, effort, random.Random(seed), min(end, time.monotonic() + effort.seconds), end)
    for number in range(effort.most_rounds * 3):
        began = time.monotonic()
        if not rounds.run(number):
            break
        if any(lane.doubt and not lane.by_wall for lane in lanes.values()):
            for lane in lanes.values():
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


@dataclass
class Rounds:
    """The rounds of a race, while it goes on and when it is over.

    Attributes:
        order: of the lanes in a round.
        deadline: when what was asked for is spent; the race goes on only for what is still open.
        end: when nothing goes on.
        failures: why a lane died, by its place.
        late: what lanes were doing, by their place, that had not come back when the time or their limit was over.
        cut_short: whether rounds ended because the time of the run did.
        quiet: rounds in which others left the machine alone.
        window: rounds of which that is not known yet.
    """

    lanes: dict[int, Lane]
    effort: Effort
    order: random.Random
    deadline: float
    end: float
    watch: NoiseWatch = field(default_factory=NoiseWatch)
    failures: dict[int, str] = field(default_factory=dict)
    late: dict[int, str] = field(default_factory=dict)
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
        alive = [i for i, lane in self.lanes.items() if lane.racing]
        self.order.shuffle(alive)
        for i in alive:
            if time.monotonic() >= self.end:
                break
            given_s = min(HANGS_S, self.end - time.monotonic())
            try:
                self.watch.add_own(run_lane(self.lanes[i], given_s))
            except WorkerFailed as failed:
                if failed.kind == "timeout" and time.monotonic() >= self.end:
                    if not self.lanes[i].times and failed.call is not None and given_s >= self._base_round_s:
                        self.late[i] = failed.reason
                    break
                if i == 0:
                    raise
                self.failures[i], self.lanes[i].racing = failed.reason, False
                if failed.kind == "limit":
                    self.late[i] = failed.reason
        raced = [self.lanes[i] for i in alive]
        if time.monotonic() >= self.end and any(one.racing and len(one.times) <= number for one in raced):
            for one in raced:
                del one.times[number:], one.calls[number:], one.goal[number:]
            self.cut_short = True
            return False
        self.window.append(number)
        share = self.watch.foreign_share()
        if share is not None:
            self.quiet += self.window if share <= _FOREIGN_SHARE else []
            self.window = []
        return True

    @property
    def _base_round_s(self) -> float:
        """Seconds of a round of the original; 0 before its first. A lane that got less time than that is not late."""
        base = self.lanes[0]
        return base.spent_s / len(base.times) if base.times else 0.0

    def is_over(self, count: int, half_a_round_s: float) -> bool:
        """Whether no further round is run.

        Args:
            count: of rounds so far.
            half_a_round_s: a round is begun where more than half of it is in time.
        """
        effort, enough = self.effort, count >= self.effort.least_rounds
        alone = len(self.lanes) > 1 and not any(self.lanes[i].racing for i in self.lanes if i)
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
        racing = {i: lane for i, lane in self.lanes.items() if i and lane.racing}
        ratios = {
            i: goal_ratio(one.goal, base.goal, kept) or paired_ratio(round_ratios(one, base, kept))
            for i, one in racing.items()
        }
        if not ratios:
            return None
        best = min(ratios.values(), key=lambda ratio: ratio.value)
        for i, ratio in ratios.items():
            if self.effort.drop and ratio is not best and ratio.low * WORTH > best.high:
                racing[i].racing = False
        rivals = [ratio for i, ratio in ratios.items() if ratio is not best and racing[i].racing]
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
        best: ratio of the best lane.
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


def _busy_s() -> float:
    """Seconds that all processors together have been busy or stolen since boot."""
    import psutil

    times = psutil.cpu_times()._asdict()
    counted = ("user", "nice", "system", "irq", "softirq", "steal", "interrupt", "dpc")
    return float(sum(times.get(name, 0.0) for name in counted))
