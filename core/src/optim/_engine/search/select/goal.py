"""What better means: the figure of a model that a search makes small."""

from __future__ import annotations

import math
from collections.abc import Iterable

from optim._engine.jobs.clocks.ratio import FASTER, Ratio
from optim._engine.search.run_time import RunTime
from optim._engine.search.settings import CLOCKED, Goal
from optim._engine.search.state import Candidate, LaneResult, Measured

_SMALLER = 0.995
"""A difference that a report calls the same size is no result."""

_LESS_MEMORY = 0.98
"""Peak memory differs by about a per cent from process to process."""


class Objective:
    """The goal of a run on its target: size where time means nothing.

    Args:
        goal: what the user asked for.
        timed: whether time means something on the target.
    """

    def __init__(self, goal: Goal, timed: bool) -> None:
        self.goal: Goal = goal if timed else "size"

    def figure(self, item: Measured, base: LaneResult | None) -> float:
        """Returns what is made small: the ratio of the goal's clock, bytes on disk, or peak memory in bytes."""
        if self.goal == "size":
            return float(item.candidate.size_bytes)
        if self.goal == "memory":
            return float(item.peak_memory_bytes or self._memory_of(item, base))
        if self.goal in CLOCKED:
            return item.goal.value if item.goal is not None else math.inf if item.candidate.steps else 1.0
        return item.ratio if item.ratio is not None else 1.0

    def is_reached(self, item: Measured, base: LaneResult | None, original: Candidate) -> bool:
        """Returns whether it is better than the original beyond the noise.

        Args:
            item: what was measured.
            base: the original in the last race.
            original: the model as it came, taking and giving what ``item`` does.
        """
        if self.goal == "size":
            return item.candidate.size_bytes < _SMALLER * original.size_bytes
        if self.goal == "memory":
            before = base.ready.peak_memory_bytes if base and base.ready else 0
            return 0 < item.peak_memory_bytes < _LESS_MEMORY * before
        clock = self.clock_of(item)
        if self.goal in CLOCKED and clock is not None and _makes_it_possible(item, base):
            return True
        return clock is not None and clock.is_faster

    def best_undecided(self, items: Iterable[Measured]) -> Measured | None:
        """Returns the best of those that are faster so far and whose interval leaves open whether they are."""
        open_ = [
            (clock.value, item)
            for item in items
            if (clock := self.clock_of(item)) is not None and clock.value < FASTER and clock.is_undecided
        ]
        return min(open_, key=lambda one: one[0])[1] if open_ else None

    def why_undecided(self, item: Measured, time: RunTime) -> str:
        """Returns the figures of what :meth:`best_undecided` found, and what to type."""
        clock = self.clock_of(item)
        assert clock is not None
        return f"undecided: {clock.text}; give more seconds: --search-seconds {time.more_s}"

    def clock_of(self, item: Measured) -> Ratio | None:
        """Returns what the clock of a timed goal found; None if it found nothing, or the goal is not a time."""
        if self.goal in CLOCKED:
            return item.goal
        return item.timing if self.goal == "latency" else None

    def _memory_of(self, item: Measured, base: LaneResult | None) -> float:
        """The original's own peak is that of the base of the last race; a model that was not raced comes last."""
        if not item.candidate.is_original or base is None or base.ready is None:
            return math.inf
        return base.ready.peak_memory_bytes


def _makes_it_possible(item: Measured, base: LaneResult | None) -> bool:
    """Whether it keeps within a limit of latency that the original does not; what breaks it is not measured."""
    return bool(item.candidate.steps and base and base.throughput and base.throughput.objection)
