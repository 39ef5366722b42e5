"""The goal of a run on what the search measured: what is made small, and when it is reached."""

from __future__ import annotations

import math
from collections.abc import Iterable

from optim._engine.goals.known import SIZE
from optim._engine.search.deadline import Deadline
from optim._engine.search.state import Candidate, LaneResult, Measured
from optim.goal import FASTER, Basis, Goal, ModelFigures, Ratio


class Objective:
    """The goal of a run on its target: size where time means nothing.

    Args:
        goal: what the user asked for.
        timed: whether time means something on the target.

    Attributes:
        goal: what is made small.
    """

    def __init__(self, goal: Goal, timed: bool) -> None:
        self.goal = goal if timed else SIZE

    @property
    def basis(self) -> Basis:
        """Where its figure comes from."""
        return self.goal.basis

    @property
    def is_latency(self) -> bool:
        """Whether the time of single calls is the figure: what first looks and kernels promise is promised of it."""
        return self.goal.basis is Basis.CALLS

    @property
    def is_size(self) -> bool:
        """Whether no race is needed to tell which is better."""
        return self.goal.basis is Basis.SIZE

    @property
    def has_clock(self) -> bool:
        """Whether the goal has a clock of its own."""
        return self.goal.basis is Basis.CLOCK

    def figure(self, item: Measured, base: LaneResult | None) -> float:
        """Returns what is made small: the ratio of the goal's clock, bytes on disk, or peak memory in bytes.

        What was not measured comes last; of a time the original's is 1.
        """
        if self.is_latency:  # which has a figure, too, where its interval is not known
            return item.ratio if item.ratio is not None else 1.0
        found = self.goal.figure(_figures(item, base))
        if found is not None:
            return found
        return 1.0 if self.has_clock and not item.candidate.steps else math.inf

    def is_reached(self, item: Measured, base: LaneResult | None, original: Candidate) -> bool:
        """Returns whether it is better than the original beyond the noise.

        Args:
            item: what was measured.
            base: the original in the last race.
            original: the model as it came, taking and giving what ``item`` does.
        """
        return self.goal.is_reached(_figures(item, base), _of_original(original, base))

    def best_undecided(self, items: Iterable[Measured]) -> Measured | None:
        """Returns the best of those that are faster so far and whose interval leaves open whether they are."""
        open_ = [
            (time.value, item)
            for item in items
            if (time := self.time_of(item)) is not None and time.value < FASTER and time.is_undecided
        ]
        return min(open_, key=lambda one: one[0])[1] if open_ else None

    def why_undecided(self, item: Measured, time: Deadline) -> str:
        """Returns the figures of what may be faster, and what would decide it: seconds, or a quiet machine."""
        found = self.time_of(item)
        assert found is not None
        said = f"undecided: {found.text}"
        if item.is_disturbed:
            said += "; other programs used the machine: repeat the run on a quiet machine with --no-cache"
        return said if found.is_faster else f"{said}; give more seconds: --search-seconds {time.more_s}"

    def time_of(self, item: Measured) -> Ratio | None:
        """Returns what a timed goal's clock found; None if it found nothing, or the goal is not a time."""
        return self.goal.time_of(_figures(item, None))


def _figures(item: Measured, base: LaneResult | None) -> ModelFigures:
    """What is known of a model; the original's own peak is that of the base of the last race."""
    candidate = item.candidate
    if candidate.is_original:
        return _of_original(candidate, base, item)
    broken = "" if candidate.steps else _broken_limit(base)
    return ModelFigures(candidate.size_bytes, item.peak_memory_bytes, item.timing, item.goal, broken)


def _of_original(original: Candidate, base: LaneResult | None, item: Measured | None = None) -> ModelFigures:
    ready = base.ready if base is not None else None
    peak = (item.peak_memory_bytes if item else 0) or (ready.peak_memory_bytes if ready else 0)
    times = (item.timing, item.goal) if item is not None else (None, None)
    return ModelFigures(original.size_bytes, peak, *times, _broken_limit(base))


def _broken_limit(base: LaneResult | None) -> str:
    return base.throughput.objection if base is not None and base.throughput is not None else ""
