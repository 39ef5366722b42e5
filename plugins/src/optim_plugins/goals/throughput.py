"""Goal ``throughput``: seconds for a sample, where batches, sessions and threads are the model's own best.

In its first round a lane looks how the model is best run: for each way to share the processors the batch is doubled as
long as that gives more samples a second and 95 of 100 calls keep within the limit. That way is timed in every round. So
each model, the original too, is judged by what it can do at best on this machine.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from optim.arrays import Feeds
from optim.backend import Session
from optim.errors import OptimError, describe_exception
from optim.goal import Figure, Goal, GoalClock, GoalRequest, Served, Serving, Subject, Timer, Tried, Words
from optim.jobs import usable_processors
from optim.model import THREADS, SessionConfig, row_inputs
from optim.providers import CPU

_LOOK_S = 0.2
"""For one way to run it: with less one slow call decides, with more a lane's first round takes many seconds."""

_ROUND_S = 0.4
"""For a round: some tens of calls of a model that takes 10 ms, and no more than a second of one that takes 0.5 s."""

_MOST_BATCH = 256
_LONGEST_CALL_S = 0.5
"""A batch whose call takes longer is not doubled again: what a call costs by itself is a small part of it then."""

_CHOOSING_S = 3.0
"""For looking, in a lane's first round: the others of a race wait, and a search has a dozen. A way that was begun is
ended."""

_ROOM = 0.8
"""Of the limit, for what a look of tenths of seconds finds: over a whole race some calls take longer."""

_MORE = 1.03
"""What a batch twice as large must give more: less is noise, and costs latency."""

_MISSES = 1
"""So many batches may give no more before the next is not looked at: one may be slow by chance."""


class ThroughputGoal(Goal):
    """How many samples a model does in a second, however it is run."""

    name = "throughput"
    summary = "samples per second with the best batch size, sessions and threads"
    words = Words(
        "ratio of time per sample",
        "does {} times as many samples a second",
        "does {} times fewer samples a second",
        "does as many samples a second as before",
    )
    takes = ("max_latency_ms",)

    def clock(self, asked: GoalRequest) -> ThroughputClock:
        """It runs batches in several sessions at once."""
        return ThroughputClock(asked.max_latency_ms / 1e3 if asked.max_latency_ms is not None else None)


@dataclass(frozen=True, slots=True)
class ThroughputClock(GoalClock):
    """Runs batches in several sessions at once.

    Attributes:
        max_latency_s: what 95 of 100 calls must keep within; None: as long as it takes.
    """

    max_latency_s: float | None = None

    def start(self, subject: Subject) -> Timer:
        """The way to run it is looked for in the first round, when no other lane works."""
        return _Throughput(subject, self.max_latency_s)


class _Throughput(Timer):
    def __init__(self, subject: Subject, max_latency_s: float | None) -> None:
        self._subject = subject
        self._limit_s = max_latency_s
        self._sessions: list[Session] = []
        self._opened = Serving()
        self._served: Served | None = None

    def round(self) -> Figure:
        """Samples that all sessions finish in a while, each as fast as it can."""
        told = None
        if self._served is None:
            told = self._served = self._choose()
        rate, calls = self._run(self._served.serving, _ROUND_S)
        return Figure(1 / rate, tuple(calls), told)

    def close(self) -> None:
        """Close further sessions; the lane's own stays its."""
        for session in self._sessions:
            if session is not self._subject.session:
                session.close()
        self._sessions = []

    def _choose(self) -> Served:
        """The way with most samples a second; where none keeps within the limit, the one with the shortest calls."""
        batches, note = (_doubled(), "") if self._has_rows() else ((1,), "the model accepts no other batch size")
        tried: list[Tried] = []
        end = time.perf_counter() + _CHOOSING_S
        for sessions, threads in self._shares():
            most, misses = 0.0, 0
            for batch in self._worth_looking(batches, tried) if time.perf_counter() < end else ():
                found = self._look(Serving(batch, sessions, threads))
                tried.append(found)
                misses = 0 if found.samples_per_s > most * _MORE else misses + 1
                late = found.p95_s > (self._limit_s or _LONGEST_CALL_S) or time.perf_counter() > end
                if late or misses > _MISSES or not found.samples_per_s:
                    break
                most = max(most, found.samples_per_s)
        limit_ms = self._limit_s * 1e3 if self._limit_s is not None else None
        meeting = [one for one in tried if one.samples_per_s and not one.problem]
        if meeting:
            best = max(meeting, key=lambda one: one.samples_per_s)
            return Served(best.serving, tuple(tried), limit_ms, note)
        running = [one for one in tried if one.samples_per_s]
        if not running:
            raise OptimError(
                "original-failed",
                "the model ran with no number of sessions and threads",
                tried[0].problem,
                "optim --debug shows where",
            )
        return Served(min(running, key=lambda one: one.p95_s).serving, tuple(tried), limit_ms, note)

    def _worth_looking(self, batches: Sequence[int], tried: Sequence[Tried]) -> Sequence[int]:
        """Batches for a further share: smaller ones than half of what was best so far are so there too.

        Under a limit of latency fewer processors for a session may ask for any smaller batch.
        """
        working = [one for one in tried if one.samples_per_s]
        if self._limit_s is not None or not working:
            return batches
        best = max(working, key=lambda one: one.samples_per_s).serving.batch
        return [batch for batch in batches if batch >= best // 2]

    def _look(self, serving: Serving) -> Tried:
        try:
            self._run(serving, 0.0)  # memory is taken, kernels are chosen
            rate, calls = self._run(serving, _LOOK_S)
        except Exception as error:  # a model may refuse a batch, or memory may not do for it
            return Tried(serving, problem=f"it does not run: {describe_exception(error)}")
        p95_s = _p95_of(calls)
        beyond = self._limit_s is not None and p95_s > _ROOM * self._limit_s
        return Tried(serving, rate, p95_s, "beyond the latency limit" if beyond else "")

    def _has_rows(self) -> bool:
        return bool(row_inputs(self._subject.model.inputs))

    def _shares(self) -> list[tuple[int, int | None]]:
        """Ways to share the processors, or the target's threads: one session with all, and more with fewer each."""
        if self._subject.target.made_for != CPU or self._subject.target.provider != CPU:
            return [(1, None)]  # one device computes, whoever asks
        processors = self._subject.target.threads or usable_processors()
        shares: list[tuple[int, int | None]] = [(1, None)]
        sessions = 2
        while sessions <= processors:
            shares.append((sessions, processors // sessions))
            sessions *= 2
        return shares

    def _run(self, serving: Serving, seconds: float) -> tuple[float, list[float]]:
        """Samples a second, and seconds of each call; at least one call of each session."""
        sessions = self._open(serving)
        feeds, rows = _batch(self._subject, serving.batch)
        calls = _at_once(sessions, feeds, seconds)
        rate = sum(rows * len(own) / sum(own) for own in calls)
        return rate, [one for own in calls for one in own]

    def _open(self, serving: Serving) -> list[Session]:
        if self._sessions and (serving.sessions, serving.threads) == (self._opened.sessions, self._opened.threads):
            return self._sessions
        self.close()
        one = self._subject
        model = one.model
        if serving.threads is not None:
            model = model.with_session(SessionConfig({THREADS: serving.threads}))
        own = serving.sessions == 1 and serving.threads is None
        self._sessions, self._opened = [one.session] if own else [], serving
        try:
            for _ in range(serving.sessions - len(self._sessions)):
                self._sessions.append(one.backend.open(model, one.target))
        except BaseException:
            self.close()  # those that were opened are no serving
            raise
        return self._sessions


def _p95_of(seconds: Sequence[float]) -> float:
    """What 95 of 100 calls keep within, in seconds."""
    import numpy as np

    return float(np.percentile(seconds, 95))


def _doubled() -> tuple[int, ...]:
    return tuple(1 << power for power in range(_MOST_BATCH.bit_length()))


def _batch(subject: Subject, batch: int) -> tuple[Feeds, int]:
    """The first timed sample so many times, and the rows that makes; with 1 it is as it came."""
    import numpy as np

    feeds = subject.feeds[0]
    rows = row_inputs(subject.model.inputs)
    many = {name: np.concatenate([array] * batch) if name in rows else array for name, array in feeds.items()}
    return many, next((many[name].shape[0] for name in rows if name in many), 1)


def _calls(session: Session, feeds: Feeds, seconds: float) -> list[float]:
    """Seconds of each call of one session; there is one at least."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    while True:
        found += session.time_runs(feeds, 1)
        if time.perf_counter() >= end:
            return found


def _at_once(sessions: Sequence[Session], feeds: Feeds, seconds: float) -> list[list[float]]:
    """Seconds of each call, in all sessions at once, one after the other until the time is over.

    Raises:
        Exception: what the first that failed raised.
    """
    if len(sessions) == 1:
        return [_calls(sessions[0], feeds, seconds)]
    found: list[list[float]] = [[] for _ in sessions]
    failed: list[BaseException] = []
    start = threading.Barrier(len(sessions))

    def work(place: int) -> None:
        try:
            start.wait()
            found[place] = _calls(sessions[place], feeds, seconds)
        except BaseException as error:  # raised below, in the thread that asked
            failed.append(error)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(len(sessions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return found
