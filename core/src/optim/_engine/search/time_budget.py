"""All seconds of one search: what they are for, how many there are, and what more of them would buy.

A search has the seconds that the user gave (``--search-seconds``), and a small end of its own:

==============================  ====================================  ====================================
what                            how long                              what more of it would buy
==============================  ====================================  ====================================
the best guess of every pass    the first third                       first looks at slow passes
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

What must end at all (a pass that is asked, a step that is applied again) has its bound here too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

RACES_SHARE = 0.2
"""Share of the search that is kept for races: candidates that nobody times are worth nothing."""

LEFT_FOR_LOSSY = 0.75
"""Share that stages without lossy passes leave where size is the goal: with less, half a minute quantizes nothing."""

GRACE_S = 10.0
"""For what was begun in time: more lets slower passes end, and every search may end so much later."""

REPAIR_SHARE = 0.4
"""Share of the time for candidates: with more, other passes do not have their turn."""

FIRST_REPAIR_SHARE = 0.7
"""Share of what is left for repairs that the next one gets: what it finds is tried on other candidates too."""

SAMENESS_SHARE = 0.08
"""Share of the search for telling settings that change nothing: it saves more than that in races, but not on models
that take seconds to open."""

LAST_SAMENESS_S = 20.0
"""For telling whether settings that are about to be delivered change anything: it must be known in the end."""

LEAST_REPAIR_S = 2.0
"""A repair with less does not get to its first evaluation."""

FINAL_S, AGAIN_S = 8.0, 6.0
"""For races of what may be delivered: they end before that where the interval is narrow."""

SHORTER_S = 12.0
"""For applying steps again, to see which of them are needed."""

FALLBACKS_S = 20.0
"""For races of what came next: where a busy machine hides every difference, more rounds do not find one."""

FINAL_REPAIRS_S = 14.0
"""For all repairs on all samples together."""

REAPPLIED_S = 48.0
"""For one step that is applied to another candidate: one that takes longer is not worth the end of a search."""

ASKING_S = 120.0
"""For one pass to say what it offers: it only ends one that hangs."""

REFUSAL_S = 60.0
"""For the passes that the user named to look at the model: it only ends one that hangs."""

LOOK_S = 1.0
"""The shortest race while exploring: with less, five rounds of a few lanes do not fit."""

SHARE_OF_A_STAGE = 0.85
"""Part of an equal share of the time that is left: the races of later stages have more candidates."""

_START_S = 0.2
"""What a process with a runtime takes to start: a first guess, corrected by every race; 0.05 s as a fork, 0.7 s of
processor time as a program."""

_STARTING_SHARE = 0.6
"""Part of the time to open a model alone that a lane takes: lanes open two at a time."""

_RUNS_A_LANE = 30
"""Runs of a model for its warm-up and for the rounds without which nothing can be said."""

_LEAST_RUNS = 8
_LANE_RUN_S = 0.6
"""A model whose runs take longer than this together gets fewer of them, :data:`_LEAST_RUNS` at least."""

FIRST_LOOKS_SHARE = 1 / 3
"""Share of the search in which the best guess of every pass is tried: with less, slow machines try some only."""

_FIRST_TRIES = 0.7
"""Part of it in which candidates may begin: the rest is for timing them."""

_RUNS_A_ROUND = 2
"""Of a slow model, by sample: one that is not timed, and one that is."""

_LEAST_ROUNDS = 3
"""Of slow models: the report's interval says how little that is."""

_SLOW_S = 0.05
"""A model whose run takes longer is slow: looks at it have three rounds, on one sample."""

_OPENING_SHARE = 0.4
"""Part of a lane's time that opening takes: it is not part of the race itself."""

LEAST_LANES = 5
"""Looked at whatever the time: the best of fewer says little about a stage."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a race looks.

    Attributes:
        seconds: of racing, after the lanes are open.
        least_rounds: before anything is decided.
        most_rounds: at which it ends.
        width: ends earlier when the best lane's interval is narrower than this share.
        drop: whether beaten lanes leave the race.
        open_timeout_s: for opening, comparing and warming up.
        patience_s: how much longer to wait for enough quiet rounds where other processes use the machine.
        fresh: whether each lane is a program of its own. Forks start ten times faster, and their memory lies where it
            lay in the last one: what is delivered is timed in programs.
        most_samples: so many of the shapes are timed; None: all.
        decides: whether rounds go on, twice as long at most, while noise leaves open if the best is faster.
    """

    seconds: float
    least_rounds: int = 6
    most_rounds: int = 40
    width: float = 0.02
    drop: bool = True
    open_timeout_s: float = 300.0
    patience_s: float = 0.0
    fresh: bool = True
    most_samples: int | None = None
    decides: bool = False


class Allowance:
    """Seconds for one kind of work; they run while :meth:`spending` is entered."""

    def __init__(self, seconds: float, now: Callable[[], float]) -> None:
        self._seconds = seconds
        self._now = now
        self._since: float | None = None

    @property
    def left(self) -> float:
        """Seconds that are left; below zero where they are overdrawn."""
        return self._seconds - (self._now() - self._since if self._since is not None else 0.0)

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count what is done inside."""
        self._since = self._now()
        try:
            yield
        finally:
            self._seconds, self._since = self.left, None


class TimeBudget:
    """The seconds of one search; it begins when this is made.

    Args:
        search_s: what the user gave.
        timeout_s: the most that one candidate may take, and one model to open.
        races: whether candidates are raced while exploring.
        now: seconds of a clock that never goes back.

    Attributes:
        pace: scales the seconds of every race; tests race for tenths of seconds.
        programs: whether what may be delivered is timed in programs of its own; tests fork these too.
        repairs: for repairs while exploring.
        sameness: for telling settings that change nothing, while exploring.
        last_sameness: for the same of what may be delivered.
        final_repairs: for repairs on all samples.
        shorter: for chains without a step that has not shown its worth.
        fallbacks: for what came next, where the best did not hold.
    """

    pace: ClassVar[float] = 1.0
    programs: ClassVar[bool] = True

    def __init__(
        self, search_s: float, timeout_s: float, *, races: bool = True, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._timeout_s = timeout_s
        self._begin = now()
        self._search_s = search_s
        self._end = self._begin + search_s
        self._races_s = RACES_SHARE * search_s if races else 0.0
        self._later_s = 0.0
        self._lane_s = 0.0
        self._run_s = 0.0
        self._round_s = 0.0
        self.repairs = Allowance(REPAIR_SHARE * (search_s - self._races_s), now)
        self.sameness = Allowance(SAMENESS_SHARE * search_s, now)
        self.last_sameness = Allowance(LAST_SAMENESS_S, now)
        self.final_repairs = Allowance(FINAL_REPAIRS_S, now)
        self.shorter = Allowance(SHORTER_S, now)
        self.fallbacks = Allowance(FALLBACKS_S, now)

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
        left = self._begin + FIRST_LOOKS_SHARE * _FIRST_TRIES * self._search_s - self._now()
        return min(self._timeout_s, left + GRACE_S) if left > 0 else 0.0

    @property
    def left_for_first_race(self) -> float:
        """Seconds for timing what had its first look."""
        return max(LOOK_S, self._begin + FIRST_LOOKS_SHARE * self._search_s - self._now())

    @property
    def left_for_repairs(self) -> float:
        """Seconds that repairs may take while exploring."""
        return min(self.repairs.left, self.left_for_candidates)

    def for_candidate(self, *, named: bool = False) -> float:
        """Seconds after which a candidate is stopped; what the user named has its full time."""
        return self._timeout_s if named else min(self._timeout_s, self.left_for_candidates + GRACE_S)

    def may_begin(self, took_s: float) -> bool:
        """Whether a candidate may begin whose pass took ``took_s`` seconds before."""
        left = self.left_for_candidates
        return left > 0 and took_s <= left + GRACE_S

    def share(self, stages: int) -> float:
        """The share of the time that is left for the races of one of ``stages`` stages still to come."""
        return SHARE_OF_A_STAGE / stages

    def expect_lanes(self, open_s: float, run_s: float, samples: int = 1) -> None:
        """Note what opening the original and running it once took, and on how many samples it is timed."""
        self._run_s = run_s
        self._round_s = _RUNS_A_ROUND * run_s * max(1, samples)
        self._lane_s = _START_S + _STARTING_SHARE * open_s + self._runs_s

    def note_lanes(self, open_s: float) -> None:
        """Note what a lane of the last race took to open; half of the expectation goes by it."""
        self._lane_s = 0.5 * self._lane_s + 0.5 * (open_s + self._runs_s)

    @property
    def _runs_s(self) -> float:
        """Seconds that a lane takes to run its model: slow models run less often."""
        return min(_RUNS_A_LANE * self._run_s, max(_LANE_RUN_S, _LEAST_RUNS * self._run_s))

    def lanes(self, share: float, least: int) -> int:
        """How many lanes there is time for.

        Args:
            share: of the time that is left.
            least: so many whatever the share, as far as half of all the time that is left is enough for them;
                :data:`LEAST_LANES` whatever the time.
        """
        least = min(least, max(LEAST_LANES, int(self.left / 2 / self._lane_s)))
        return max(least, int(self.left * share / self._lane_s))

    def look(self, seconds: float, lanes: int, *, memory_only: bool = False) -> Effort:
        """A quick look at some lanes in ``seconds``, opening them included; memory is known when a lane is open."""
        seconds = self.pace * max(LOOK_S, seconds - _OPENING_SHARE * self._lane_s * lanes)
        if memory_only:
            return Effort(seconds, least_rounds=3, most_rounds=5, drop=False, fresh=False)
        slow = self._run_s > _SLOW_S
        return Effort(
            seconds,
            least_rounds=3 if slow else 5,
            most_rounds=20,
            width=0.03,
            fresh=False,
            most_samples=1 if slow else None,
        )

    def first_look(self, seconds: float) -> Effort:
        """Three rounds on one sample, and a few more where they are short."""
        seconds = self.pace * min(seconds, 2 * LOOK_S)
        return Effort(seconds, least_rounds=3, most_rounds=7, width=0.05, fresh=False, most_samples=1)

    def lanes_at_the_end(self, wanted: int) -> int:
        """How many of so many models have three rounds in the last race, two at least."""
        if self._run_s <= _SLOW_S:
            return wanted
        return min(wanted, max(2, int(FINAL_S / (_LEAST_ROUNDS * self._round_s)) - 1))

    def final(self, lanes: int, *, drop: bool) -> Effort:
        """Fresh rounds for so many models that may be delivered."""
        return self._exact(FINAL_S, lanes, least_rounds=10, drop=drop)

    def again(self, lanes: int, *, drop: bool) -> Effort:
        """Fresh rounds in fresh processes, for what contends."""
        return self._exact(AGAIN_S, lanes, least_rounds=8, drop=drop)

    def _exact(self, seconds: float, lanes: int, *, least_rounds: int, drop: bool) -> Effort:
        if self._run_s > _SLOW_S:
            there_is_time_for = int(seconds / ((lanes + 1) * self._round_s))
            least_rounds = min(least_rounds, max(_LEAST_ROUNDS, there_is_time_for))
        seconds *= self.pace
        return Effort(
            seconds=seconds,
            least_rounds=least_rounds,
            most_rounds=40,
            width=0.015,
            drop=drop,
            open_timeout_s=self._timeout_s,
            patience_s=seconds / 2,
            fresh=self.programs,
        )
