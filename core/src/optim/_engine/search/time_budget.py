"""All seconds of one search: what they are for, how many there are, and what more of them would buy.

What the user gave (``--search-seconds``), or what was announced, is for the whole run: see
:mod:`optim._engine.search.run_time`. What preparing took and what the end will need is taken off; the rest is
the search:

==============================  ====================================  ====================================
what                            how long                              what more of it would buy
==============================  ====================================  ====================================
the best guess of every pass    the first third; the first two 60 %   first looks at slow passes
                                of the time for candidates
candidates                      the first 80 % of the search, all of  candidates that nobody times
                                it where size is the goal
repairs of them                 40 % of that, 70 % of it for one      smaller sets of nodes left in float
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
from typing import ClassVar

from optim._engine.search.effort import Allowance, Effort
from optim._engine.search.lane_seconds import LEAST_LANES, LaneSeconds
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

LEAST_REPAIR_S = 2.0
"""A repair with less does not get to its first evaluation."""
FINAL_S, AGAIN_S = 8.0, 6.0
"""For races of what may be delivered: they end before that where the interval is narrow."""

SHORTER_S, FALLBACKS_S, FINAL_REPAIRS_S = 12.0, 20.0, 14.0
"""For applying steps again, to see which are needed; for races of what came next: where a busy machine hides every
difference, more rounds do not find one; for all repairs on all samples together."""

REAPPLIED_S = 48.0
"""For one step that is applied to another candidate: one that takes longer is not worth the end of a search."""

LOOK_S = 1.0
"""The shortest race while exploring: with less, five rounds of a few lanes do not fit."""

SHARE_OF_A_STAGE = 0.85
"""Part of an equal share of the time that is left: the races of later stages have more candidates."""

FIRST_LOOKS_SHARE, _FIRST_TRIES = 1 / 3, 0.7
"""Share of the search in which the best guess of every pass is tried: with less, slow machines try some only; and the
part of it in which candidates may begin: the rest is for timing them."""

_FIRST_RACE = 0.7
"""Share of all that is left until the last race that the first one may take: of slow models there is no other."""

_LEAST_ROUNDS = 3
"""Of slow models: the report's interval says how little that is."""

_OPENING_SHARE = 0.4
"""Part of a lane's time that opening takes: it is not part of the race itself."""

_PROGRAM_S = 0.7
"""What a program of its own takes to start beyond a fork: its imports."""

MOST_FOR_THE_END = 0.5
"""Share of what is left when the search begins: with more, nothing is found that an end could prove."""

_SHORTER_SHARE = 1 / 3
"""Of the seconds for chains without a step that are kept for them: most of these steps were applied before."""

_AGAIN_LANES = 2
"""Models that are timed a second time: what contends is seldom more."""


class TimeBudget(LaneSeconds):
    """The seconds of one search; it begins when this is made.

    Args:
        search_s: for exploring.
        timeout_s: the most that one candidate may take, and one model to open.
        races: whether candidates are raced while exploring.
        now: seconds of a clock that never goes back.
        run: the whole run that it is part of; without one nothing bounds its end.
        must: whether something was named: that is proven, whatever the time.

    Attributes:
        pace: scales the seconds of every race; tests race for tenths of seconds.
        programs: whether what may be delivered is timed in programs of its own; tests fork these too.
        search_s: what it began with.
        grace_s: for what was begun in time.
        repairs: for repairs while exploring.
        sameness: for telling settings that change nothing, while exploring.
        last_sameness: for the same of what may be delivered.
        verdict_sameness: for the same of what won, whatever is left of the run.
        final_repairs: for repairs on all samples.
        shorter: for chains without a step that has not shown its worth.
        fallbacks: for what came next, where the best did not hold.
    """

    pace: ClassVar[float] = 1.0
    programs: ClassVar[bool] = True

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
        super().__init__()
        self._now = now
        self._run = run or RunTime(AUTO, now)
        self._timeout_s = timeout_s
        self._races, self._later_s = races, 0.0
        self._must = must
        self._for_the_end_s = math.inf
        part = self._run.part
        self.grace_s = part * GRACE_S
        self.repairs, self.sameness = Allowance(0.0, now), Allowance(0.0, now)
        self.begin(search_s)
        self.last_sameness = Allowance(part * LAST_SAMENESS_S, now, self._left_before_proof)
        self.verdict_sameness = Allowance(part * LAST_SAMENESS_S, now)  # a verdict is right whatever the time
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
        whole._for_the_end_s = min(end_s, MOST_FOR_THE_END * left)
        whole.begin(max(0.0, left - whole._for_the_end_s))
        return whole

    def _at_least(self, floor_s: float, seconds: float) -> float:
        """So many seconds, or what is begun may take whatever is left; what must be done has no bound."""
        return math.inf if self._must else max(floor_s, seconds)

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

    def for_candidate(self, *, named: bool = False) -> float:
        """Seconds after which a candidate is stopped; what the user named has its full time."""
        return self._timeout_s if named else min(self._timeout_s, self.left_for_candidates + self.grace_s)

    def for_asking(self, *, named: bool = False) -> float:
        """Seconds in which a pass must say what it offers."""
        most = min(self._timeout_s, ASKING_S)
        return most if named else min(most, max(0.0, self.left_for_candidates) + self.grace_s)

    def may_begin(self, took_s: float) -> bool:
        """Whether a candidate may begin whose pass took ``took_s`` seconds before."""
        left = self.left_for_candidates
        return left > 0 and took_s <= left + self.grace_s

    def share(self, stages: int) -> float:
        """The share of the time that is left for the races of one of ``stages`` stages still to come."""
        return SHARE_OF_A_STAGE / stages

    def look(self, seconds: float, lanes: int, *, memory_only: bool = False) -> Effort:
        """A quick look at some lanes in ``seconds``, opening them included; memory is known when a lane is open."""
        whole_s = self._at_least(self._run.look_floor_s, self._left_before_proof())
        seconds = self.pace * max(LOOK_S, seconds - _OPENING_SHARE * self._lane_s * lanes)
        if memory_only:
            return Effort(seconds, least_rounds=3, most_rounds=5, drop=False, fresh=False, whole_s=whole_s)
        return Effort(
            seconds,
            least_rounds=3 if self.is_slow else 5,
            most_rounds=20,
            width=0.03,
            fresh=False,
            most_samples=1 if self.is_slow else None,
            whole_s=whole_s,
        )

    def first_look(self, seconds: float) -> Effort:
        """Three rounds on one sample, and a few more where they are short."""
        whole_s = self._at_least(self._run.look_floor_s, _FIRST_RACE * self._left_before_proof())
        seconds = self.pace * min(seconds, 2 * LOOK_S)
        return Effort(seconds, least_rounds=3, most_rounds=7, width=0.05, fresh=False, most_samples=1, whole_s=whole_s)

    def proof_s(self, lanes: int) -> float:
        """Seconds that proving so many models takes: opened, compared on all samples, timed, some of them again."""
        opened_s = self._lane_s + (_PROGRAM_S if self.programs else 0.0)
        first = self._opened_s(lanes)
        if self.is_long:  # timed again only where there is time; sizes need no second race
            return first
        return first + self._final_s + ((_AGAIN_LANES + 1) * opened_s + self._again_s if self._races else 0.0)

    def _opened_s(self, lanes: int) -> float:
        """Seconds until so many models are open beside the original, and compared on all samples."""
        return (lanes + 1) * (self._lane_s + (_PROGRAM_S if self.programs else 0.0)) + lanes * self._run.comparing_s

    @property
    def may_prove(self) -> bool:
        """Whether there is time for half of what one model takes to be open: with less it has no figure."""
        return self._must or self._opened_s(1) / 2 <= self._run.end_s

    def lanes_to_look_at(self, wanted: int) -> int:
        """How many of so many models have their first look before the last race must begin; 0 for none."""
        return max(0, min(wanted, int(self._left_before_proof() / self._lane_s) - 1))

    def _left_before_proof(self) -> float:
        """Seconds until the last race, of two models or one that runs long, must begin.

        Where a busy machine makes it look longer than half of the time, it has that half: what is not looked at
        cannot be proven either.
        """
        end_s = self._run.closing_s + self.proof_s(1 if self.is_long else _AGAIN_LANES)
        return self._run.left - min(end_s, self._for_the_end_s)

    @property
    def is_up(self) -> bool:
        """Whether only the last race fits into what is left of the run."""
        return self._left_before_proof() <= 0

    def lanes_at_the_end(self, wanted: int) -> int:
        """How many of so many models there is time to prove, one at least."""
        if self.is_slow:
            wanted = min(wanted, max(2, int(self._final_s / (_LEAST_ROUNDS * self._round_s)) - 1))
        left = self._run.left - self._run.closing_s
        return max((lanes for lanes in range(1, wanted + 1) if self.proof_s(lanes) <= left), default=min(1, wanted))

    @property
    def may_time_again(self) -> bool:
        """Whether there is time for a second race of what contends."""
        lanes = 2 if self.is_long else _AGAIN_LANES + 1
        return self._run.left - self._run.closing_s > lanes * self._lane_s + 0.5 * self._again_s

    @property
    def for_reapplying(self) -> float:
        """Seconds for one step that is applied to another candidate at the end."""
        left = min(REAPPLIED_S, self._left_before_proof())
        return min(self._timeout_s, self._at_least(min(self._run.floor_s, self._run.end_s), left))

    def final(self, lanes: int, *, drop: bool) -> Effort:
        """Fresh rounds for so many models that may be delivered."""
        again = self._races and not self.is_long
        again_s = (_AGAIN_LANES + 1) * self._lane_s + self._again_s if again else 0.0
        return self._exact(self._final_s, lanes, least_rounds=10, drop=drop, after_s=again_s)

    def again(self, lanes: int, *, drop: bool) -> Effort:
        """Fresh rounds in fresh processes, for what contends."""
        return self._exact(self._again_s, lanes, least_rounds=8, drop=drop, after_s=0.0)

    @property
    def _final_s(self) -> float:
        return self._run.part * FINAL_S

    @property
    def _again_s(self) -> float:
        return self._run.part * AGAIN_S

    def _exact(self, seconds: float, lanes: int, *, least_rounds: int, drop: bool, after_s: float) -> Effort:
        if self.is_slow:
            there_is_time_for = int(seconds / ((lanes + 1) * self._round_s))
            least_rounds = min(least_rounds, max(_LEAST_ROUNDS, there_is_time_for))
        end_s, opened_s = self._run.end_s, self._opened_s(lanes)
        whole_s = math.inf if self._must else end_s - after_s if end_s - after_s > opened_s + seconds else end_s
        seconds *= self.pace
        return Effort(
            seconds=seconds,
            least_rounds=least_rounds,
            most_rounds=40,
            width=0.015,
            drop=drop,
            open_timeout_s=self._timeout_s,
            patience_s=seconds / 2,
            fresh=self.programs and (self._must or opened_s <= end_s),
            most_samples=1 if self.is_long else None,
            whole_s=whole_s,
        )
