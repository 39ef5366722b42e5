"""A simulation of many runs on many machines, driven by measured job times, for benchmarks/cluster/scale.py.

A simulated run goes through the jobs of a measured one in their order; offers, candidates and repairs of one stage side
by side, all else one by one. Resources are queues: workers, which do one job at a time; clocks, which are workers that
may time; the link over which one scheduler carries files, or a store URL, which carries for each worker apart; and the
scheduler, which takes some milliseconds for a job. Weights go to a worker once a run.

Two ways are compared: ``batch`` gives a whole run to a worker that has a clock; ``jobs`` has each job of a run done by
any worker, and its races by one with a clock.
"""

from __future__ import annotations

import heapq
import itertools
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

_SIDE_BY_SIDE = ("offer", "candidate", "repair_job")
"""Kinds of jobs of which those that follow each other are done at the same time."""

_TIMED = ("race_job", "kernels", "operators_timed")

_FIXED_S = 2.0
"""A run's own part, which holds no worker: reading, deciding, writing the folder; 2 s of processor time, measured."""

_LINK_BYTES_S = 87e6
"""What one scheduler carries: 3.8 ms of processor time for a MB there and 7.6 on the worker, measured, one by one."""

_JOB_S = 0.005
"""Processor time of the scheduler and the run for a job, measured."""


@dataclass(frozen=True)
class Job:
    """A job of a run: seconds on a worker, and bytes beside the weights, to it and from it."""

    timed: bool
    seconds: float
    small_bytes: float
    made_bytes: float


@dataclass(frozen=True)
class Run:
    """A measured run: its size, and groups of jobs; those of a group go side by side."""

    size_bytes: float
    groups: tuple[tuple[Job, ...], ...]

    @property
    def clock_s(self) -> float:
        """Seconds that it holds a clock."""
        return sum(job.seconds for group in self.groups for job in group if job.timed)

    @property
    def job_s(self) -> float:
        """Seconds of all its jobs."""
        return sum(job.seconds for group in self.groups for job in group)

    def of_size(self, size_bytes: float) -> Run:
        """The same for a model of another size.

        Untimed jobs read and write weights at 150 MB/s (optim's own estimate, search/time_estimate.py). Races keep the
        seconds that a search gives them. What jobs make grows with the model.
        """
        more_s, factor = (size_bytes - self.size_bytes) / 150e6, size_bytes / self.size_bytes
        groups = tuple(
            tuple(
                job
                if job.timed
                else replace(job, seconds=job.seconds + max(0.0, more_s), made_bytes=job.made_bytes * factor)
                for job in group
            )
            for group in self.groups
        )
        return Run(size_bytes, groups)


@dataclass(frozen=True)
class Pool:
    """Machines.

    Attributes:
        workers: that do jobs.
        clocks: those of them that may time.
        link_bytes_s: what one scheduler carries in a second; or each worker, with a store URL.
        has_url: whether files go by a store URL.
        job_overhead_s: of the scheduler, for a job.
        drivers: runs under way at the same time.
    """

    workers: int
    clocks: int
    link_bytes_s: float = _LINK_BYTES_S
    has_url: bool = False
    job_overhead_s: float = _JOB_S
    drivers: int = 0


@dataclass
class Outcome:
    """What a simulation came to: seconds of it all, and the share of them that each resource was busy."""

    seconds: float
    workers: float
    clocks: float
    link: float
    scheduler: float


class Simulation:
    """Events by their time, each a function that is called then."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.now = 0.0
        self.busy = dict.fromkeys(("workers", "clocks", "link", "scheduler"), 0.0)
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._free = [pool.workers - pool.clocks, pool.clocks]  # without and with a clock
        self._waiting: tuple[deque[Callable[[int], None]], ...] = (deque(), deque())  # untimed and timed jobs
        self._link_free_at = self._scheduler_free_at = 0.0

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        """Call a function later."""
        heapq.heappush(self._events, (self.now + seconds, next(self._count), then))

    def run(self) -> Outcome:
        """Until nothing is left to do."""
        while self._events:
            self.now, _, then = heapq.heappop(self._events)
            then()
        busy, pool, whole = self.busy, self.pool, max(self.now, 1e-9)
        links = pool.workers if pool.has_url else 1
        return Outcome(
            whole,
            busy["workers"] / pool.workers / whole,
            busy["clocks"] / pool.clocks / whole,
            busy["link"] / links / whole,
            busy["scheduler"] / whole,
        )

    def have(self, one: Job, first_bytes: float, then: Callable[[], None]) -> None:
        """Have a job done: scheduled, on a worker, its files there and back."""

        def on_worker(kind: int) -> None:
            self.after(self._carried(first_bytes + one.small_bytes), lambda: work(kind))

        def work(kind: int) -> None:
            self.busy["workers"] += one.seconds
            self.busy["clocks"] += one.seconds if one.timed else 0.0
            self.after(one.seconds, lambda: release(kind))

        def release(kind: int) -> None:
            self._free[kind] += 1
            self._hand_out()
            self.after(self._carried(one.made_bytes), then)

        def ask() -> None:
            self._waiting[one.timed].append(on_worker)
            self._hand_out()

        self.after(self._scheduled(), ask)

    def _hand_out(self) -> None:
        untimed, timed = self._waiting
        while timed and self._free[1]:
            self._give(timed.popleft(), 1)
        while untimed and any(self._free):
            self._give(untimed.popleft(), 0 if self._free[0] else 1)

    def _give(self, then: Callable[[int], None], kind: int) -> None:
        self._free[kind] -= 1
        then(kind)

    def _carried(self, size_bytes: float) -> float:
        """Seconds until some bytes have come over the link, from now."""
        seconds = size_bytes / self.pool.link_bytes_s
        self.busy["link"] += seconds
        if self.pool.has_url:
            return seconds
        self._link_free_at = max(self.now, self._link_free_at) + seconds
        return self._link_free_at - self.now

    def _scheduled(self) -> float:
        """Seconds until the scheduler has handed a job out, from now."""
        self.busy["scheduler"] += self.pool.job_overhead_s
        self._scheduler_free_at = max(self.now, self._scheduler_free_at) + self.pool.job_overhead_s
        return self._scheduler_free_at - self.now


def by_jobs(simulation: Simulation, runs: deque[Run]) -> None:
    """A driver that takes one run after the other, and has its jobs done by any worker."""
    if not runs:
        return
    run = runs.popleft()
    reached = min(simulation.pool.workers, max(map(len, run.groups)) + 1)  # workers that it sends its weights to
    jobs_begun = 0

    def group(place: int) -> None:
        nonlocal jobs_begun
        if place == len(run.groups):
            by_jobs(simulation, runs)
            return
        left = len(run.groups[place])

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                group(place + 1)

        for one in run.groups[place]:
            simulation.have(one, run.size_bytes if jobs_begun < reached else 0.0, one_done)
            jobs_begun += 1

    simulation.after(_FIXED_S, lambda: group(0))


def by_runs(simulation: Simulation, runs: deque[Run]) -> None:
    """A worker that takes whole runs, on its own clock."""
    if runs:
        run = runs.popleft()
        whole = Job(True, _FIXED_S + run.job_s, 0.0, 0.0)
        simulation.have(whole, run.size_bytes, lambda: by_runs(simulation, runs))


def simulated(run: Run, models: int, pool: Pool, way: str) -> Outcome:
    """What a number of runs comes to on a pool, by ``batch`` or by ``jobs``."""
    simulation, runs = Simulation(pool), deque([run] * models)
    begin, at_once = (by_runs, pool.clocks) if way == "batch" else (by_jobs, pool.drivers or pool.workers)
    for _ in range(min(models, at_once)):
        begin(simulation, runs)
    return simulation.run()


def read(path: Path) -> list[Run]:
    """The runs of a trace, the smallest first."""
    found = []
    for rows in json.loads(path.read_text()).values():
        groups: list[list[Job]] = []
        before = ""
        size_bytes = float(rows[0]["size_bytes"])
        for row in rows[1:]:
            if row["state"] not in ("done", "failed"):
                continue  # it was asked for files, and came again
            sent = row.get("sent_bytes", 0.0)
            small = sent - size_bytes if sent >= size_bytes else sent
            one = Job(bool(row["timed"]), row["seconds"], max(0.0, small), row["made_bytes"])
            if row["kind"] == before and before in _SIDE_BY_SIDE:
                groups[-1].append(one)
            else:
                groups.append([one])
            before = row["kind"]
        found.append(Run(size_bytes, tuple(map(tuple, groups))))
    return sorted(found, key=lambda run: run.size_bytes)
