"""The goal of a run on what the search measured: what is made small, and when it is reached."""

from __future__ import annotations

import math
from collections.abc import Iterable

from optim._engine.goals.bounds import Bound, judged_by_core
from optim._engine.goals.known import SIZE
from optim._engine.search.deadline import Deadline
from optim._engine.search.state import Candidate, LaneResult, Measured, inaccuracy
from optim.goal import FASTER, Basis, Goal, ModelFigures, Ratio


class Objective:
    """The goal of a run on its target: size where time means nothing; and the bounds that a result keeps within.

    Attributes:
        base: the original in the last race; None before the first.
    """

    def __init__(self, goal: Goal, timed: bool, bounds: Iterable[Bound] = (), base: LaneResult | None = None) -> None:
        self.goal = goal if timed else SIZE
        self.bounds = judged_by_core(bounds, self.goal.takes)
        self.base = base

    @property
    def is_latency(self) -> bool:
        """Whether the time of single calls alone decides: what first looks and kernels promise is promised of it.

        With a bound a slower candidate may be the one that meets it.
        """
        return self.goal.basis is Basis.CALLS and not self.bounds

    @property
    def is_accuracy(self) -> bool:
        """Whether the gate finds the figure, whatever a clock says."""
        return self.goal.basis is Basis.ACCURACY

    @property
    def is_size(self) -> bool:
        """Whether no race is needed to tell which is better: sizes decide, and no bound on another figure."""
        return self.goal.basis is Basis.SIZE and all(bound.figure == SIZE.name for bound in self.bounds)

    def figure(self, item: Measured) -> float:
        """Returns what is made small: the ratio of the goal's clock, bytes on disk, or peak memory in bytes.

        What was not measured comes last; of a time the original's is 1.
        """
        if self.is_latency:  # which has a figure, too, where its interval is not known
            return item.ratio if item.ratio is not None else 1.0
        found = self.goal.figure(figures_of(item, self.base))
        if found is not None:
            return found
        return 1.0 if self.goal.basis in (Basis.CALLS, Basis.CLOCK) and not item.candidate.steps else math.inf

    def is_reached(self, item: Measured, original: Candidate) -> bool:
        """Returns whether it keeps within the bounds, and is better than the original beyond the noise.

        Within the bounds it is better by the goal, or the original is not known to keep within them.

        Args:
            item: what was measured.
            original: the model as it came, taking and giving what ``item`` does.
        """
        found, before = figures_of(item, self.base), _of_original(original, self.base)
        if self._objection(found) or (not item.candidate.steps and self._late):
            return False
        return bool(self.original_objection(original)) or self.goal.is_reached(found, before)

    def original_objection(self, original: Candidate) -> str:
        """Returns why the original is not known to keep within the bounds, with its figures; empty if it does."""
        return self._objection(_of_original(original, self.base)) or self._late

    @property
    def _late(self) -> str:
        """Why the original breaks the latency limit of a goal that has its own."""
        served = self.base.throughput if self.base is not None else None
        return served.objection if served is not None else ""

    def objection(self, item: Measured) -> str:
        """Returns why a model is not known to keep within the bounds, with its figures; empty if it does."""
        return self._objection(figures_of(item, self.base))

    def excess(self, item: Measured) -> float:
        """Returns the logarithm of the factor by which it breaks a bound; 0 if it may keep within all of them."""
        found = figures_of(item, self.base)
        return max((bound.excess(found) for bound in self.bounds), default=0.0)

    @property
    def bounds_text(self) -> str:
        """The bounds as the user may type them."""
        return " ".join(bound.text for bound in self.bounds)

    def _objection(self, found: ModelFigures) -> str:
        return "; ".join(filter(None, (bound.objection(found) for bound in self.bounds)))

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
        return self.goal.time_of(figures_of(item, None))


def figures_of(item: Measured, base: LaneResult | None) -> ModelFigures:
    """Returns what is known of a model; the original's own figures are those of the base of the last race."""
    candidate = item.candidate
    if candidate.is_original:
        return _of_original(candidate, base, item)
    return ModelFigures(
        candidate.size_bytes,
        item.peak_memory_bytes,
        item.lane.ratio,
        item.lane.goal,
        item.lane.latency,
        inaccuracy(item),
    )


def _of_original(original: Candidate, base: LaneResult | None, item: Measured | None = None) -> ModelFigures:
    ready = base.ready if base is not None else None
    peak = (item.peak_memory_bytes if item else 0) or (ready.peak_memory_bytes if ready else 0)
    times = (item.lane.ratio, item.lane.goal) if item is not None else (None, None)
    return ModelFigures(original.size_bytes, peak, *times, base.latency if base is not None else None)
