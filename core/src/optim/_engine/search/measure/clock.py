"""Races of the search: which of the chains are faster, looked at in heats that fit into memory and time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import worst_drift
from optim._engine.jobs.lane import Ready
from optim._engine.search.measure.race import Effort, LaneResult, joined
from optim._engine.search.measure.racing import check_chain, lanes_at_once, race_chains
from optim._engine.search.state import Candidate, Measured
from optim._engine.search.workbench import Workbench

_PROCESS_S = 0.4
_RUNS_A_LANE = 30
_BEATEN = 1.08
_LEAST = 5


class Clock:
    """Times chains against the original within the search's time."""

    def __init__(self, bench: Workbench, budget: Budget, deadline: float) -> None:
        self._bench = bench
        self._budget = budget
        self._deadline = deadline
        prepared = bench.prepared
        self._lane_s = _PROCESS_S + 0.6 * prepared.open_s + _RUNS_A_LANE * prepared.run_s
        self.base: LaneResult | None = None
        self.objections: dict[str, str] = {}
        self.wrong: dict[str, Candidate] = {}
        self.seen: dict[str, float] = {}
        self._best_of_graph: dict[str, float] = {}
        self.results: dict[str, LaneResult] = {}
        self.bases: dict[str, LaneResult] = {}

    def is_beaten(self, candidate: Candidate) -> bool:
        """Whether an earlier race has shown these very settings to be clearly slower than others of the same graph."""
        if self._bench.settings.goal == "memory":
            return False
        own = self.seen.get(candidate.model.digest)
        graph = candidate.model.path.name
        return own is not None and own > _BEATEN * self._best_of_graph.get(graph, own)

    def explore(self, candidates: Sequence[Candidate], share: float, least: int = _LEAST) -> list[Measured]:
        """A quick look at many chains, best guess first.

        Args:
            candidates: the most promising first; those for which there is no time are left out of the answer.
            share: of the search time that is left, 0..1.
            least: so many are looked at whatever the share, as far as half of all the time that is left is enough for
                them; :data:`_LEAST` whatever the time.

        Returns:
            What held, in the order of ``candidates``; why others did not is in :attr:`objections` by model digest.
        """
        all_left = max(0.0, self._deadline - time.monotonic())
        left = all_left * share
        least = min(least, max(_LEAST, int(all_left / 2 / self._lane_s)))
        affordable = max(least, int(left / self._lane_s))
        chosen = list(candidates)[:affordable]
        found: list[Measured] = []
        width = lanes_at_once(self._bench)
        for start in range(0, len(chosen), width):
            heat = chosen[start : start + width]
            seconds = max(1.0, left * len(heat) / len(chosen) - 0.4 * self._lane_s * len(heat))
            effort = Effort(seconds, least_rounds=5, most_rounds=20, width=0.03)
            if self._bench.settings.goal == "memory":  # known when a lane is open
                effort = Effort(seconds, least_rounds=3, most_rounds=5, drop=False)
            found += self.measure(heat, effort, "explore")
            self._lane_s = 0.5 * self._lane_s + 0.5 * self._cost_of_a_lane()
        return found

    def _cost_of_a_lane(self) -> float:
        """What the last race took to open one, and the rounds without which nothing can be said."""
        opened = self.base.open_s if self.base else 0.0
        return opened + _RUNS_A_LANE * self._bench.prepared.run_s

    def measure(
        self,
        candidates: Sequence[Candidate],
        effort: Effort,
        purpose: str,
        samples: tuple[int, ...] | None = None,
        *,
        measure_task: bool = False,
    ) -> list[Measured]:
        """One race; a chain that does not run, or is not right with its session settings, is an objection."""
        self._bench.say(f"timing {len(candidates)} model{'s' if len(candidates) > 1 else ''} against the original")
        self.base, results = race_chains(
            self._bench,
            candidates,
            effort,
            purpose=purpose,
            samples=samples,
            measure_task=measure_task,
            budget=self._budget,
        )
        found = []
        for candidate, result in zip(candidates, results, strict=True):
            self.results[candidate.model.digest], self.bases[candidate.model.digest] = result, self.base
            measured = self._judged(candidate, result)
            if measured:
                found.append(measured)
        return found

    def again(self, items: Sequence[Measured], effort: Effort) -> list[Measured]:
        """The same models in fresh processes: the same graph differs by some per cent from one to the next.

        Returns:
            The figures of both races together, see :func:`~optim._engine.search.measure.race.joined`. What does not run
            a second time is an objection.
        """
        self._bench.say(f"timing {len(items)} model{'s' if len(items) > 1 else ''} again in fresh processes")
        _, results = race_chains(self._bench, [item.candidate for item in items], effort, purpose="again", samples=())
        found = []
        for item, second in zip(items, results, strict=True):
            digest = item.candidate.model.digest
            if second.failure or second.ratio is None or second.ready is None:
                self.objections[digest] = f"in a second process: {second.failure or 'it was not timed'}"
                continue
            both = self.results[digest] = joined(self.results[digest], second)
            if both.ratio is not None:
                peak = max(item.peak_memory_bytes, second.ready.peak_memory_bytes)
                found.append(
                    replace(
                        item,
                        ratio=both.ratio.value,
                        low=both.ratio.low,
                        high=both.ratio.high,
                        latency_ms=both.latency_ms,
                        peak_memory_bytes=peak,
                    )
                )
        return found

    def check(self, candidate: Candidate) -> Measured | None:
        """Whether a chain is right on a target that cannot be timed; why not is in :attr:`objections`."""
        self._bench.say("running the result on every sample")
        result = check_chain(self._bench, candidate)
        self.results[candidate.model.digest] = result
        if self._objects(candidate, result) or result.ready is None:
            return None
        ready = result.ready
        return Measured(with_comparison(candidate, ready), None, comparisons=ready.comparisons)

    def _objects(self, candidate: Candidate, result: LaneResult) -> bool:
        """Whether it does not run, or is not right; the reason is noted."""
        failure = result.failure
        if result.ready is not None and not failure:
            lossy = candidate.is_lossy or not self._bench.target.exact
            failure = self._budget.objection(result.ready.comparisons, lossy, result.ready.task)
            if failure:
                self.wrong[candidate.model.digest] = with_comparison(candidate, result.ready)
        if failure:
            self.objections[candidate.model.digest] = failure
        return bool(failure)

    def _judged(self, candidate: Candidate, result: LaneResult) -> Measured | None:
        if self._objects(candidate, result):
            return None
        if result.ready is None or result.ratio is None:
            self.objections[candidate.model.digest] = "it was not timed"
            return None
        graph, ratio = candidate.model.path.name, result.ratio.value
        self.seen[candidate.model.digest] = ratio
        self._best_of_graph[graph] = min(ratio, self._best_of_graph.get(graph, ratio))
        return measured_of(candidate, result)


def measured_of(candidate: Candidate, result: LaneResult) -> Measured:
    """A chain with what the clock said of it, and how far it is from the original on the samples compared there."""
    assert result.ready is not None
    assert result.ratio is not None
    return Measured(
        with_comparison(candidate, result.ready),
        result.ratio.value,
        result.ratio.low,
        result.ratio.high,
        result.latency_ms,
        result.ready.peak_memory_bytes,
        result.ready.comparisons,
    )


def with_comparison(candidate: Candidate, ready: Ready) -> Candidate:
    """A chain with how far it is from the original, as a lane found it."""
    drift = worst_drift(ready.comparisons) if ready.comparisons else candidate.drift
    return replace(candidate, drift=drift, task=ready.task or candidate.task)
