"""Job: one model in one fresh process, opened, compared, warmed up, and then timed on command.

The parent drives several lanes in lock-step, so that all of them see the same machine.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from optim._engine.backends.held import HeldBackend, HeldSession
from optim._engine.backends.session_contract import clock_doubt, is_other_clock
from optim._engine.compare.comparison import Comparison
from optim._engine.compare.unseen import compare_unseen
from optim._engine.gate.drift import OutputComparison
from optim._engine.jobs.job import Job
from optim._engine.jobs.start_up import Ready, StartUp, timed_run, warm_up_of
from optim.arrays import Feeds
from optim.errors import OptimError, describe_exception
from optim.goal import Figure, GoalClock, Subject, Timer
from optim.jobs.doing import PluginCall, calling, doing
from optim.jobs.resources import peak_memory_bytes
from optim.jobs.talk import Channel
from optim.jobs.wire import from_wire, to_wire
from optim.model import Model
from optim.providers.names import CPU

_BURST_S = 0.02
_MOST_RUNS = 10

LONG_S = 0.5
"""A run on a CPU that takes longer warms itself up: caches and threads are awake after its first hundredth. A GPU
chooses kernels in a first run, which may take many times a later one. A model whose run takes longer is timed on one
sample: on three, a round of three models takes ten seconds."""


@dataclass(frozen=True, slots=True)
class Request:
    """A model to time.

    Attributes:
        comparison: of the chain that made it, where it runs too.
        compared: samples to compare on; empty for the original itself.
        timed: samples to time; none where the target cannot be timed.
        clock: of the goal, which has its turn in each round too; None where the goal has none of its own.
        batched: whether it is looked at how far answers move in a batch and with padding, and what unseen samples show.
    """

    model: Model
    comparison: Comparison
    compared: tuple[int, ...]
    timed: tuple[int, ...]
    measure_task: bool = False
    clock: LaneClock | None = None
    batched: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """Nothing: a lane ends when it is told to."""


JOB = Job(__name__, Request, Answer)


def run(request: Request, channel: Channel) -> Answer:
    """Open, warm up, say ``ready``; then answer each ``{"go": true}`` with one round of times."""
    comparison = request.comparison
    place = comparison.place
    backend = place.backend()
    backend.versions()  # imports the runtime
    feeds = comparison.timed_feeds(request.timed)
    before = peak_memory_bytes()
    started = time.perf_counter()
    with backend.open(request.model, place.target) as session:
        open_s, open_bytes = time.perf_counter() - started, _taken_bytes(session, before)
        first, duration = [], []
        for name, sample in feeds:
            with doing(name):
                first.append(timed_run(session, sample))
                is_warm = first[-1] > LONG_S and place.target.provider == CPU
                duration.append(first[-1] if is_warm else timed_run(session, sample))
        warm_up = warm_up_of(session, [sample for _, sample in feeds], first, duration)
        start = StartUp(open_s, open_bytes, tuple(first), warm_up)
        peak = _taken_bytes(session, before)
        comparisons, task = comparison.judge(
            session, request.compared, measure_task=request.measure_task, everything=True
        )
        batch = comparison.batch_drift(session, request.model) if request.batched else None
        unseen: list[OutputComparison] = []
        if request.batched and request.compared:
            unseen = compare_unseen(session, request.model, comparison.reference, comparison.interfaces)
        ready = Ready(
            comparisons,
            peak,
            dict(session.executed_on),
            tuple(duration),
            task,
            start,
            batch,
            tuple(session.kernels()),
            tuple(unseen),
        )
        session.release()  # where the device takes one session at a time, the other lanes open now
        told = session.processor_s()
        channel.event("ready", ready=to_wire(ready), cpu_s=told)
        subject = Subject(backend, request.model, place.target, session, tuple(sample for _, sample in feeds))
        with closing(_GoalTimer(request.clock, subject)) as goal:
            _answer_rounds(channel, backend, session, feeds, duration, goal, told)
    return Answer()


def _taken_bytes(session: HeldSession, before: int) -> int:
    """Peak memory above what the process had before, unless the runtime has a figure of its own."""
    own = session.peak_memory_bytes()
    return max(0, peak_memory_bytes() - before) if own is None else own


class _GoalTimer:
    """The goal's clock on the model of a lane; nothing where the goal has none of its own."""

    def __init__(self, clock: LaneClock | None, subject: Subject) -> None:
        self._clock = clock
        self._subject = subject
        self._timer: Timer | None = None
        self.restart()

    def restart(self) -> None:
        """Forget what was chosen in earlier rounds."""
        self.close()
        self._timer = self._clock.start(self._subject) if self._clock else None

    def round(self) -> Figure | None:
        """One round."""
        return self._clock.round(self._timer) if self._clock and self._timer else None

    def close(self) -> None:
        """Leave what the timer holds."""
        timer, self._timer = self._timer, None
        if timer:
            timer.close()


def _answer_rounds(
    channel: Channel,
    backend: HeldBackend,
    session: HeldSession,
    feeds: Sequence[tuple[str, Feeds]],
    duration: Sequence[float],
    goal: _GoalTimer,
    told: float,
) -> None:
    """A round of times for each ``go``: of the samples, and of the goal's own clock.

    The first round also says ``doubt`` if the device's clock contradicts the wall's; then it has no goal, as the race
    begins again. A ``go`` may ask for the wall's clock: all that the backend opened is timed by it.

    ``cpu_s`` counts on from ``told``, the session's processor seconds when it said that it is ready: what the goal's
    clock takes to start, and threads that spin after a run, are not of other programs.
    """
    runs = [max(1, min(_MOST_RUNS, int(_BURST_S / max(d, 1e-9)))) for d in duration]
    doubt, is_first = None, True
    while (asked := channel.receive()).get("go"):
        if asked.get("by_wall") and not backend.by_wall:
            backend.by_wall = True
            goal.restart()
        seconds, passed_s, share_s = [], 0.0, 0.0
        for (_, sample), count, took in zip(feeds, runs, duration, strict=True):
            untimed = 1 if took < LONG_S else 0
            began = time.perf_counter()
            if untimed:
                session.run(sample)
            started = time.perf_counter()
            seconds.append(session.time_runs(sample, count))
            ended = time.perf_counter()
            passed_s += ended - started
            share_s += (ended - began) * count / (count + untimed)
        if is_first and not backend.by_wall and is_other_clock(sum(map(sum, seconds)), passed_s, share_s):
            doubt = clock_doubt(session, feeds[0][1])
        is_first = False
        session.release()
        figure = None if doubt and not backend.by_wall else goal.round()
        known, told = told, session.processor_s()
        goal_figure = to_wire(figure) if figure else None
        channel.event("times", seconds=seconds, cpu_s=told - known, goal=goal_figure, doubt=doubt)


@dataclass(frozen=True, slots=True)
class LaneClock:
    """A goal's clock on its way to a lane.

    Attributes:
        path: ``package.module:Class`` of the clock.
        release: the distribution that brings it, with its version; empty: it is optim's own.
    """

    goal: str
    path: str
    settings: dict[str, Any]
    release: str = ""

    @classmethod
    def of(cls, goal: str, clock: GoalClock, release: str = "") -> LaneClock:
        """Pack a clock."""
        kind = type(clock)
        return cls(goal, f"{kind.__module__}:{kind.__qualname__}", to_wire(clock), release)

    def start(self, subject: Subject) -> Timer:
        """The clock's timer."""
        module, _, name = self.path.partition(":")
        with self._calling():
            clock: GoalClock = from_wire(getattr(importlib.import_module(module), name), self.settings)
            return clock.start(subject)

    def round(self, timer: Timer) -> Figure:
        """One round of the timer."""
        with self._calling():
            found = timer.round()
        seconds = found.seconds if isinstance(found, Figure) else found
        if isinstance(found, Figure) and isinstance(seconds, int | float) and 0 < seconds < math.inf:
            return found
        raise self._failed(f"its clock returned {seconds!r}, and not a Figure of some seconds")

    @contextmanager
    def _calling(self) -> Iterator[None]:
        try:
            with calling(PluginCall(f"the clock of goal {self.goal} was running", self.release)):
                yield
        except OptimError:
            raise
        except Exception as error:
            if not self.release:
                raise
            raise self._failed(f"its clock raised {describe_exception(error)}") from error

    def _failed(self, cause: str) -> OptimError:
        return OptimError(
            "goal-failed",
            f"the clock of goal {self.goal} does not work on a model",
            cause,
            "time single runs: --goal latency; if it fails on every model, report this to its plugin",
            self.release,
        )
