"""All seconds of one search: what they are for, how many there are, and what more of them would buy.

What the user gave (``--search-seconds``), or what was announced, is for the whole run: see
:mod:`optim._engine.search.run_time`. What preparing took and what the end will need is taken off; the rest is
the search:

==============================  ====================================  ====================================
what                            how long                              what more of it would buy
==============================  ====================================  ====================================
the best guess of every pass    the first third; what leads its       first looks at slow passes
                                stage 60 % of that for candidates
candidates                      the first 80 % of the search, all of  candidates that nobody times
                                it where size is the goal
repairs of them                 40 % of that, 70 % of it for one      smaller sets of nodes left in float
repairs where nothing is faster all but the least proof of one model  a model that is faster
telling settings that are idle  8 %, and 20 s in the end              races of settings that change nothing
a candidate that was begun      10 s more                             slow passes on large models
races while exploring           what is left, shared by the stages    narrower intervals of what is dropped
the last race, and once more    8 s, 6 s; half more where it is noisy narrower intervals of what is delivered
chains without a step           12 s to make them                     fewer steps that nothing needs
what came next                  20 s to begin its race                another look on a busy machine
repairs on all samples          14 s                                  a model that is faster than what held
==============================  ====================================  ====================================

The seconds of the end are those of a run of 80 s and more: a shorter one has its part of them. None of it begins where
the last race would not fit any more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from optim._engine.search.effort import Allowance
from optim._engine.search.lane_seconds import AGAIN_LANES, LEAST_LANES, LOOK_S, RaceSeconds
from optim._engine.search.run_time import ASKING_S, MOST_S, RunTime
from optim._engine.search.settings import AUTO

RACES_SHARE = 0.2
"""Share of the search that is kept for races: candidates that nobody times are worth nothing."""

GRACE_S = 10.0
"""For what was begun in time: more lets slower passes end, and every search may end so much later."""

REPAIR_SHARE = 0.4
"""Share of the time for candidates: with more, other passes do not have their turn."""

FIRST_REPAIR_SHARE = 0.7
"""Share of what is left for repairs that the next one gets: what it finds is tried on other candidates too."""

SAMENESS_SHARE, LAST_SAMENESS_S = 0.08, 20.0
"""Share of the search, and seconds in the end, for telling settings that change nothing: the first saves more than that
in races, but not on models that take seconds to open; the second must be known."""

_LEAST_VERDICT_S = 2.0
"""For telling that what won is no change, whatever the time: a small model is opened twice in less."""

LEAST_REPAIR_S = 2.0
"""A repair with less does not get to its first evaluation."""

SHORTER_S, FALLBACKS_S, FINAL_REPAIRS_S = 12.0, 20.0, 14.0
"""For applying steps again, to see which are needed; for races of what came next: where a busy machine hides every
difference, more rounds do not find one; for all repairs on all samples together."""

REAPPLIED_S = 48.0
"""For one step that is applied to another candidate: one that takes longer is not worth the end of a search."""

_ASKING_SHARE, _LEAST_ASKING_S = 0.1, 5.0
"""Share of the search in which one pass must say what it offers: one that sleeps costs the others no more. With less
than the second a process that imports the pass has not started on a busy machine."""

_SLOWER = 3.0
"""Times that a candidate may take longer when it is tried again: busy machines vary by as much."""

SHARE_OF_A_STAGE = 0.85
"""Part of an equal share of the time that is left: the races of later stages have more candidates."""

FIRST_LOOKS_SHARE, _FIRST_TRIES = 1 / 3, 0.7
"""Share of the search in which the best guess of every pass is tried: with less, slow machines try some only; and the
part of it in which candidates may begin: the rest is for timing them."""

MOST_FOR_THE_END, LEAST_FOR_THE_END = 0.5, 1 / 3
"""Shares of what is left when the search begins. With more than the first, nothing is found that an end could prove. A
proof of five models has no more than the second, if one of two fits in: runs of 30 s ended with 5 to 10 s unused."""

_SHORTER_SHARE = 1 / 3
"""Of the seconds for chains without a step that are kept for them: most of these steps were applied before."""


class TimeBudget(RaceSeconds):
    """The seconds of one search; it begins when this is made.

    Args:
        search_s: for exploring.
        timeout_s: the most that one candidate may take, and one model to open.
        races: whether candidates are raced while exploring.
        now: seconds of a clock that never goes back.
        run: the whole run that it is part of; without one nothing bounds its end.
        must: whether something was named: that is proven, whatever the time.

    Attributes:
        search_s: what it began with.
        grace_s: for what was begun in time.
        repairs: for repairs while exploring.
        sameness: for telling settings that change nothing, while exploring.
        last_sameness: for the same of what may be delivered.
        verdict_sameness: for the same of what won, within what the proof may take.
        final_repairs: for repairs on all samples.
        shorter: for chains without a step that has not shown its worth.
        fallbacks: for what came next, where the best did not hold.
    """

    def __init__(
        self,
        search_s: float,
        timeout_s: float,
        *,
        races: bool = True,
        now: Callable[[], float] = time.monotonic,
        run: RunTime | None = None,
        must: bool = False,
    ) -> None:
        super().__init__(run or RunTime(AUTO, now), timeout_s, races=races, must=must)
        self._now, self._later_s = now, 0.0
        part = self._run.part
        self.grace_s = part * GRACE_S
        self.repairs, self.sameness = Allowance(0.0, now), Allowance(0.0, now)
        self.begin(search_s)
        self.last_sameness = Allowance(part * LAST_SAMENESS_S, now, self._left_before_proof)
        self.verdict_sameness = Allowance(part * LAST_SAMENESS_S, now, self._left_for_verdict)
        self.final_repairs = Allowance(part * FINAL_REPAIRS_S, now, self._left_before_proof)
        self.shorter = Allowance(part * SHORTER_S, now, self._left_before_proof)
        self.fallbacks = Allowance(part * FALLBACKS_S, now, self._left_before_proof)

    def begin(self, search_s: float) -> None:
        """Explore for so many seconds from now on: of several targets each begins more than once."""
        self._begin, self.search_s = self._now(), search_s
        self._end = self._begin + search_s
        self._races_s = RACES_SHARE * search_s if self._races else 0.0
        self.repairs.give(REPAIR_SHARE * (search_s - self._races_s))
        self.sameness.give(SAMENESS_SHARE * search_s)

    @classmethod
    def of_run(cls, run: RunTime, timeout_s: float, *, races: bool = True, must: bool = False) -> TimeBudget:
        """The seconds of a search that begins now and leaves a run the time for its end."""
        if math.isinf(run.announced_s):
            run.announce(MOST_S)
        left = max(0.0, run.left)
        whole = cls(left, timeout_s, races=races, now=run.now, run=run, must=must)
        whole.expect_lanes(run.open_s, run.run_s)
        end_s = run.closing_s + whole.proof_s(LEAST_LANES if races else 1)  # a size needs no race, its latency does
        if races:
            end_s += _SHORTER_SHARE * whole.shorter.left_of_its_own
        two_s = run.closing_s + whole.proof_s(min(AGAIN_LANES, LEAST_LANES if races else 1))
        enough_s = max(two_s, LEAST_FOR_THE_END * left)
        whole._for_the_end_s = min(end_s, enough_s, MOST_FOR_THE_END * left)
        whole.begin(max(0.0, left - whole._for_the_end_s))
        return whole

    @property
    def left(self) -> float:
        """Seconds of the search that are left, 0 at least."""
        return max(0.0, self._end - self._now())

    @property
    def left_for_candidates(self) -> float:
        """Seconds in which candidates and repairs may begin; below zero when they are over."""
        return self._end - self._races_s - self._later_s - self._now()

    @contextmanager
    def leaving(self, share: float) -> Iterator[None]:
        """Leave a share of the time for candidates alone, 0..1: what begins inside has the rest."""
        self._later_s = share * max(0.0, self.left_for_candidates)
        try:
            yield
        finally:
            self._later_s = 0.0

    @contextmanager
    def lending(self) -> Iterator[None]:
        """Explore in the time of the end too, but for the least proof of one model: nothing is there yet to prove."""
        before = self._end, self._races_s, self._for_the_end_s
        repairs_s = self.repairs.left_of_its_own
        if math.isfinite(self._run.left):
            self._for_the_end_s = min(self._for_the_end_s, self._run.closing_s + self.least_proof_s)
            self._end = max(self._end, self._now() + self._run.left - self._for_the_end_s)
            self._races_s = 0.0
            self.repairs.give(max(0.0, self.left))
        try:
            yield
        finally:
            self._end, self._races_s, self._for_the_end_s = before
            self.repairs.give(repairs_s)

    @contextmanager
    def repairing_on(self) -> Iterator[None]:
        """Repair in all that is left of the search: there is nothing to race any more."""
        before, repairs_s = self._races_s, self.repairs.left_of_its_own
        self._races_s = 0.0
        self.repairs.give(self.left)
        try:
            yield
        finally:
            self._races_s = before
            self.repairs.give(repairs_s)

    @property
    def for_first_looks(self) -> float:
        """Seconds for a candidate that has its first look; below zero when their time is over."""
        left = self._begin + FIRST_LOOKS_SHARE * _FIRST_TRIES * self.search_s - self._now()
        return min(self._timeout_s, left + self.grace_s) if left > 0 else 0.0

    @property
    def left_for_first_race(self) -> float:
        """Seconds for timing what had its first look."""
        return max(LOOK_S, self._begin + FIRST_LOOKS_SHARE * self.search_s - self._now())

    @property
    def left_for_repairs(self) -> float:
        """Seconds that repairs may take while exploring."""
        return min(self.repairs.left, self.left_for_candidates)

    @property
    def most_before_proof(self) -> float:
        """Seconds until the least proof of one model must begin."""
        return min(self._timeout_s, self._at_least(0.0, self._run.left - self._run.closing_s - self.least_proof_s))

    def most_for_repair(self, took_s: float) -> float:
        """Seconds after which a repair is stopped: what it finds must be made as before, in so long, and proven."""
        return self._at_least(0.0, self._run.left - self._run.closing_s - self.least_proof_s - took_s)

    def for_candidate(self, *, named: bool = False) -> float:
        """Seconds after which a candidate is stopped; what the user named has its full time."""
        return self._timeout_s if named else min(self._timeout_s, self.left_for_candidates + self.grace_s)

    def for_repaired(self, took_s: float) -> float:
        """Seconds for what a repair found to hold; it took so long before, and is tried though the search is over."""
        left = self._run.left - self._run.closing_s - self.least_proof_s
        return min(self._timeout_s, max(self.for_candidate(), min(_SLOWER * took_s, left)))

    def for_asking(self, *, named: bool = False) -> float:
        """Seconds in which a pass must say what it offers."""
        most = min(self._timeout_s, ASKING_S)
        own = max(_LEAST_ASKING_S, _ASKING_SHARE * self.search_s)
        return most if named else min(most, own, max(0.0, self.left_for_candidates) + self.grace_s)

    def may_begin(self, took_s: float) -> bool:
        """Whether a candidate may begin whose pass took ``took_s`` seconds before."""
        left = self.left_for_candidates
        return left > 0 and took_s <= left + self.grace_s

    def share(self, stages: int) -> float:
        """The share of the time that is left for the races of one of ``stages`` stages still to come."""
        return SHARE_OF_A_STAGE / stages

    def _left_for_verdict(self) -> float:
        """Seconds in which a verdict may still turn out to be wrong; some, whatever the time."""
        return max(_LEAST_VERDICT_S, self._run.end_s)

    @property
    def for_reapplying(self) -> float:
        """Seconds for one step that is applied to another candidate at the end."""
        left = min(REAPPLIED_S, self._left_before_proof())
        return min(self._timeout_s, self._at_least(min(self._run.floor_s, self._run.end_s), left))
