"""Time models against a base, round by round, and drop what is clearly beaten.

Each model runs in a fresh process of its own (a lane); those of what may be delivered are forks of a program that was
started for the race, so that their memory lies elsewhere each time. A round runs every lane once, in random order: an
untimed run and a burst of timed ones for each sample, whose median counts. Only one lane works at a time. A lane's
ratio is the geometric mean over samples of lane / base in the same round; rounds in which other processes took more
than 3 % of the machine are dropped, as long as enough others remain. Lanes are opened before the race has its turn at
the machine's clock: that takes as long as the rounds, and no time of it is compared. A race with patience for quiet
rounds asks other runs for quiet.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np

from optim._engine.jobs.clocks.goal_clock import Figure, generation_of
from optim._engine.jobs.lane import JOB, Request
from optim._engine.jobs.start_up import Ready
from optim._engine.search.effort import Effort
from optim._engine.search.measure.lane_figures import goal_ratio, sample_calls, throughput, work_ratio
from optim._engine.search.measure.noise_watch import NoiseWatch
from optim._engine.search.measure.statistics import paired_ratio
from optim._engine.search.measure.stopping import Standing, next_look_after
from optim._engine.search.state import LaneResult, Ratio
from optim._engine.search.turns import quiet
from optim.jobs.forked import Server
from optim.jobs.process import WorkerFailed, WorkerProcess, server_apart
from optim.jobs.wire import from_wire

Admit = Callable[[int, Ready], bool]
Turn = Callable[[], AbstractContextManager[None]]

_FOREIGN_SHARE = 0.03
"""Share of the machine that others may use in a round that counts: less drops rounds, more widens intervals."""

_ROUND_TIMEOUT_S = 300.0
"""For one round of one lane, which takes tenths of seconds: it only ends a lane that hangs."""

_BASE_TIMEOUT_S = 900.0
"""For the base to open and to be compared: it only ends one that hangs."""

_IMPORTED = (
    "numpy.random",
    "onnxruntime",
    "psutil",
    JOB.module,
    "optim.jobs.wire",
    "optim.onnx.sessions",
    "optim.providers.repacking",
)
"""What a lane needs, for a server of its own: half of what other jobs do."""

_CLEARLY, _HOPELESS = 1.02, 1.35
"""A lane leaves the race when its interval lies above the best one's by more than the first: less drops what may yet
win. After a few rounds one that is so much slower as the second needs no interval."""


class _OutOfTime(WorkerFailed):
    """The time of the race was over before a lane was open: nothing speaks against its model."""

    def __init__(self) -> None:
        super().__init__("the time of the run was over before it was open", "timeout")


@dataclass
class _Lane:
    worker: WorkerProcess
    ready: Ready
    times: list[list[float]] = field(default_factory=list)  # by round, by sample, in seconds
    calls: list[list[list[float]]] = field(default_factory=list)  # the same, of every call
    goal: list[Figure] = field(default_factory=list)  # by round; empty where the goal has no clock of its own
    work: list[float] = field(default_factory=list)  # by round, in processor seconds a run
    racing: bool = True


def race(
    base: Request,
    lanes: Sequence[Request],
    effort: Effort,
    seed: int,
    admit: Admit | None = None,
    turn: Turn = nullcontext,
) -> tuple[LaneResult, list[LaneResult]]:
    """Time ``lanes`` against ``base``.

    Args:
        base: what the others are timed against.
        lanes: the others.
        effort: how long to look.
        seed: of the order in a round.
        admit: whether a lane may race, by its place and what it said before; all do by default.
        turn: at the machine's clock, for the rounds; whoever has it already leaves it out.

    Returns:
        The base's own result (ratio 1) and one result a lane, in order.

    Where the time is over before the base is open, nothing has figures; each result says so.

    Raises:
        WorkerFailed: the base itself does not run.
    """
    started = time.monotonic()
    end = started + effort.whole_s
    opened = [_said_beside(lane) for lane in _open(base, lanes, effort, end)]
    open_s = (time.monotonic() - started) / len(opened)
    try:
        if isinstance(opened[0], _OutOfTime):
            return LaneResult(open_s=open_s, cut_short=True, out_of_time=True), [
                LaneResult(out_of_time=True) for _ in lanes
            ]
        if isinstance(opened[0], WorkerFailed):
            raise opened[0]
        running = {i: lane for i, lane in enumerate(opened) if isinstance(lane, _Lane)}
        for i, one in running.items():
            one.racing = i == 0 or admit is None or admit(i - 1, one.ready)
        asked = time.monotonic()
        with turn(), quiet() if effort.patience_s else nullcontext():
            rounds = _run_rounds(running, effort, seed, end + time.monotonic() - asked)
    finally:
        for lane in opened:
            if isinstance(lane, _Lane):
                lane.worker.close()
    results = []
    for i, lane in enumerate(opened):
        if isinstance(lane, _OutOfTime):
            results.append(LaneResult(out_of_time=True))
        elif isinstance(lane, WorkerFailed):
            results.append(LaneResult(lane.reason))
        elif i in rounds.failures:
            results.append(LaneResult(rounds.failures[i], lane.ready))
        elif not lane.times:
            results.append(LaneResult("", lane.ready, out_of_time=rounds.cut_short and lane.racing))
        else:
            results.append(_figures(lane, running[0], rounds))
    return replace(results[0], open_s=open_s, cut_short=rounds.cut_short), results[1:]


def look(request: Request, timeout_s: float) -> LaneResult:
    """Open and compare one model without timing it; holds no clock."""
    opened = _open_one(request, timeout_s, fresh=False)
    if isinstance(opened, WorkerFailed):
        return LaneResult(opened.reason)
    opened.worker.close()
    return LaneResult(ready=opened.ready)


@dataclass(frozen=True, slots=True)
class _Rounds:
    """Rounds to count, lanes that died on the way by their place, and how the rounds went.

    Attributes:
        kept: places of the rounds that count.
        failures: why a lane died.
        disturbed: share of rounds that others disturbed.
        cut_short: whether rounds ended because the time of the run did.
    """

    kept: list[int]
    failures: dict[int, str]
    disturbed: float
    cut_short: bool = False


def _run_rounds(lanes: dict[int, _Lane], effort: Effort, seed: int, end: float) -> _Rounds:
    """Rounds until the answer is clear, or the time is spent; at ``end`` none goes on."""
    order = random.Random(seed)
    deadline = min(end, time.monotonic() + effort.seconds)
    watch, failures = NoiseWatch(), {}
    quiet: list[int] = []
    window: list[int] = []
    cut_short = False
    standing, next_look = None, 0
    for number in range(effort.most_rounds * 3):
        began = time.monotonic()
        alive = [i for i in lanes if lanes[i].racing and i not in failures]
        order.shuffle(alive)
        for i in alive:
            if time.monotonic() >= end:
                break
            try:
                watch.add_own(_run_lane(lanes[i], min(_ROUND_TIMEOUT_S, end - time.monotonic())))
            except WorkerFailed as failed:
                if failed.kind == "timeout" and time.monotonic() >= end:
                    break
                if i == 0:
                    raise
                failures[i] = failed.reason
        if time.monotonic() >= end and _forget_unfinished(lanes, alive, failures, number):
            cut_short = True
            break
        window.append(number)
        share = watch.foreign_share()
        if share is not None:
            quiet += window if share <= _FOREIGN_SHARE else []
            window = []
        half_a_round = (time.monotonic() - began) / 2
        spent = time.monotonic() + half_a_round - deadline
        kept = _usable(quiet + window, number + 1, effort.least_rounds)
        enough = number + 1 >= effort.least_rounds
        if enough and not any(lanes[i].racing for i in lanes if i):  # nothing was admitted, or all died
            break
        if enough and number + 1 >= next_look:
            standing = _judge(lanes, failures, kept, effort.drop)
            next_look = next_look_after(number + 1)
        undecided = effort.decides and standing is not None and standing.may_be_faster
        patience_s = effort.patience_s if len(quiet) < effort.least_rounds else 0.0
        if spent > max(patience_s, effort.decide_s if undecided else 0.0) and (enough or number + 1 >= 3):
            break
        if time.monotonic() + half_a_round > end:
            cut_short = True
            break
        if standing is not None and standing.is_clear(effort):
            break
        if len(quiet) >= effort.most_rounds and not undecided:
            break
    total = len(lanes[0].times)
    disturbed = 1 - len(quiet + window) / total if total else 0.0
    return _Rounds(_usable(quiet + window, total, effort.least_rounds), failures, disturbed, cut_short)


def _forget_unfinished(lanes: dict[int, _Lane], alive: Sequence[int], failures: dict[int, str], number: int) -> bool:
    """Whether a round did not come to its end; its times are dropped then."""
    unfinished = any(len(lanes[i].times) <= number for i in alive if i not in failures)
    for i in alive if unfinished else ():
        one = lanes[i]
        del one.times[number:], one.calls[number:], one.goal[number:], one.work[number:]
    return unfinished


def _usable(quiet: list[int], rounds: int, least: int) -> list[int]:
    """Quiet rounds, or all of them where too few were quiet."""
    return quiet if len(quiet) >= min(least, rounds) else list(range(rounds))


def _judge(lanes: dict[int, _Lane], failures: dict[int, str], kept: list[int], drop: bool) -> Standing | None:
    """How the best lane stands; lanes that are clearly beaten stop racing."""
    racing = [i for i in lanes if i and lanes[i].racing and i not in failures]
    ratios = {i: _ratio(lanes[i], lanes[0], kept) for i in racing}
    if not ratios:
        return None
    best = min(ratios.values(), key=lambda ratio: ratio.value)
    for i, ratio in ratios.items():
        if drop and ratio is not best and (ratio.value > _HOPELESS * best.value or ratio.low > best.high * _CLEARLY):
            lanes[i].racing = False
    rivals = [ratio for i, ratio in ratios.items() if ratio is not best and lanes[i].racing]
    return Standing(best, alone=all(ratio.low > best.high for ratio in rivals))


def _ratio(lane: _Lane, base: _Lane, kept: list[int]) -> Ratio:
    own, other = _paired(lane, base, kept)
    logs = np.log(own) - np.log(other)
    return paired_ratio(np.exp(logs.mean(axis=1)).tolist(), [1.0] * len(own))


def _paired(lane: _Lane, base: _Lane, kept: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Times of the same rounds, (rounds, samples); a lane that left early has only its own rounds."""
    rounds = [r for r in kept if r < len(lane.times)] or list(range(len(lane.times)))
    return np.asarray([lane.times[r] for r in rounds]), np.asarray([base.times[r] for r in rounds])


def _figures(lane: _Lane, base: _Lane, rounds: _Rounds) -> LaneResult:
    """Times are those of the base times the ratios: what is shown side by side then says one thing."""
    own, other = _paired(lane, base, rounds.kept)
    base_ms = np.median(_paired(base, base, rounds.kept)[0], axis=0) * 1e3
    ratio = _ratio(lane, base, rounds.kept)
    each = tuple(paired_ratio(own[:, i].tolist(), other[:, i].tolist()) for i in range(own.shape[1]))
    return LaneResult(
        ready=lane.ready,
        ratio=ratio,
        disturbed=rounds.disturbed,
        latency_ms=float(np.exp(np.log(base_ms).mean())) * ratio.value,
        sample_ms=tuple(ms * one.value for ms, one in zip(base_ms.tolist(), each, strict=True)),
        sample_ratio=each,
        generation=generation_of([lane.goal[r] for r in rounds.kept if r < len(lane.goal)]),
        goal=goal_ratio(lane.goal, base.goal, rounds.kept),
        work=work_ratio(lane.work, base.work, rounds.kept),
        sample_calls=sample_calls(lane.calls, rounds.kept),
        throughput=throughput(lane.goal, rounds.kept),
    )


def _run_lane(lane: _Lane, timeout_s: float) -> float:
    """One round of one lane; the processor seconds it used."""
    lane.worker.send({"go": True})
    answer = lane.worker.receive(timeout_s)
    lane.times.append([float(np.median(burst)) for burst in answer["seconds"]])
    lane.calls.append(answer["seconds"])
    lane.work.append(float(answer["work_s"]))
    if answer.get("goal"):
        lane.goal.append(from_wire(Figure, answer["goal"]))
    return float(answer["cpu_s"])


def _open(base: Request, lanes: Sequence[Request], effort: Effort, end: float) -> list[_Lane | WorkerFailed]:
    """Open the base and all lanes, two at a time: nothing is timed yet. Without the base's own model there is no race.

    Args:
        base: is opened first.
        lanes: are opened in order.
        effort: how long one may take, and whether it is a program of its own.
        end: when none is waited for any more.
    """

    def open_one(request: Request) -> _Lane | WorkerFailed:
        patient = request.model.digest == base.model.digest and request.comparison.place == base.comparison.place
        timeout_s = min(_BASE_TIMEOUT_S if patient else effort.open_timeout_s, end - time.monotonic())
        if timeout_s <= 0:
            return _OutOfTime()
        opened = _open_one(request, timeout_s, fresh=effort.fresh, server=server)
        if isinstance(opened, WorkerFailed) and opened.kind == "timeout" and time.monotonic() >= end:
            return _OutOfTime()
        return opened

    with server_apart(_IMPORTED) if effort.fresh else nullcontext() as server, ThreadPoolExecutor(2) as pool:
        return list(pool.map(open_one, [base, *lanes]))


def _said_beside(lane: _Lane | WorkerFailed) -> _Lane | WorkerFailed:
    """A backend that did not open a model beside others may have a device that takes one; then it has to say so."""
    if not isinstance(lane, WorkerFailed) or lane.error is None or lane.error.reference != "backend-failed":
        return lane
    cause = f"{lane.error.cause}; other models were open beside it: does its device take one (Backend.exclusive)?"
    error = replace(lane.error, cause=cause)
    return WorkerFailed(f"{error.what}: {cause}", lane.kind, lane.details, error, lane.doing)


def _open_one(request: Request, timeout_s: float, *, fresh: bool, server: Server | None = None) -> _Lane | WorkerFailed:
    worker = JOB.start(request, fresh=fresh, server=server)
    try:
        message = worker.receive(timeout_s)
        return _Lane(worker, from_wire(Ready, message["ready"]))
    except WorkerFailed as failed:
        worker.close()
        return failed
    except BaseException:
        worker.close()
        raise
