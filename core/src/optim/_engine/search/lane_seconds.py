"""What races take: lanes (a process, a model opened, the runs without which nothing can be said), looks, the proof.

:mod:`optim._engine.search.time_budget` says which of a search's seconds are for them.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import ClassVar

from optim._engine.search.effort import Effort
from optim._engine.search.run_time import RunTime

_START_S = 0.2
"""What a process with a runtime takes to start: a first guess, corrected by every race; 0.05 s as a fork, 0.4 s of
processor time for the program that forks the lanes of what may be delivered."""

_STARTING_SHARE = 0.6
"""Part of the time to open a model alone that a lane takes: lanes open two at a time."""

_RUNS_A_LANE = 30
"""Runs of a model for its warm-up and for the rounds without which nothing can be said."""

_LEAST_RUNS = 8
_LANE_RUN_S = 0.6
"""A model whose runs take longer than this together gets fewer of them, :data:`_LEAST_RUNS` at least."""

_RUNS_A_ROUND = 2
"""Of a slow model, by sample: one that is not timed, and one that is."""

_SLOW_S = 0.05
"""A model whose run takes longer is slow: looks at it have three rounds, on one sample."""

LONG_S = 0.5
"""A model whose run takes longer is timed on one sample: on three, a round of three models takes ten seconds."""

_LONG_RUNS = 4
"""Of such a model, in a lane: one before the race, and three rounds."""

LEAST_LANES, _LEAST_SLOW_LANES = 5, 2
"""Looked at whatever the time: the best of fewer says little about a stage. Of slow models five took 79 s of 300 beside
sixteen other programs."""

FINAL_S, AGAIN_S = 8.0, 6.0
"""For races of what may be delivered: they end before that where the interval is narrow."""

LOOK_S = 1.0
"""The shortest race while exploring: with less, five rounds of a few lanes do not fit."""

_DECIDE_S, _DECIDE_SHARE = 60.0, 0.8
"""How much longer the last of them goes on while noise leaves open if the best is faster. The second is the share of
what is left of the run: more seconds decide more. The first is for a run without an end, such as that of a lock."""

_LOOK_WIDTH, _FINAL_WIDTH = 0.2, 0.1
"""Shares of what a model gains that its interval may be wide: while exploring, and of what is delivered. At a ratio of
0.5 these are 10 and 5 hundredths; two processes of one graph differ by some."""

_FIRST_RACE = 0.7
"""Share of all that is left until the last race that the first one may take: of slow models there is no other."""

_LEAST_ROUNDS = 3
"""Of slow models: the report's interval says how little that is."""

_OPENING_SHARE = 0.4
"""Part of a lane's time that opening takes: it is not part of the race itself."""

_PROGRAM_S = 0.7
"""What a program of its own takes to start beyond a fork: its imports."""

AGAIN_LANES = 2
"""Models that are timed a second time: what contends is seldom more."""


class LaneSeconds(ABC):
    """What lanes of one search take: expected first, then learned from races."""

    @property
    @abstractmethod
    def left(self) -> float:
        """Seconds that are left for races."""

    def __init__(self) -> None:
        self._lane_s = 0.0
        self._run_s = 0.0
        self._round_s = 0.0
        self._proven_lane_s = 0.0

    def expect_lanes(self, open_s: float, run_s: float, samples: int = 1) -> None:
        """Note what opening the original and running it once took, and on how many samples it is timed."""
        self._run_s = run_s
        self._round_s = run_s if self.is_long else _RUNS_A_ROUND * run_s * max(1, samples)
        self._lane_s = _START_S + _STARTING_SHARE * open_s + self._runs_s

    def note_lanes(self, open_s: float) -> None:
        """Note what a lane of the last race took to open; half of the expectation goes by it."""
        self._lane_s = 0.5 * self._lane_s + 0.5 * (open_s + self._runs_s)

    def note_proof(self, open_s: float) -> None:
        """Note what a lane of what may be delivered took to open, as a program that compares all samples."""
        self._proven_lane_s = max(self._proven_lane_s, open_s)

    @property
    def lane_s(self) -> float:
        """Seconds that a lane of a race is expected to take, opening its model included."""
        return self._lane_s

    @property
    def _runs_s(self) -> float:
        """Seconds that a lane takes to run its model: slow models run less often."""
        if self.is_long:
            return _LONG_RUNS * self._run_s
        return min(_RUNS_A_LANE * self._run_s, max(_LANE_RUN_S, _LEAST_RUNS * self._run_s))

    @property
    def is_long(self) -> bool:
        """Whether a run of the model takes so long that each counts: it is timed on one sample, without warm-up."""
        return self._run_s > LONG_S

    @property
    def is_slow(self) -> bool:
        """Whether a run of the model takes so long that there are few of them."""
        return self._run_s > _SLOW_S

    def lanes(self, share: float, least: int) -> int:
        """How many lanes there is time for.

        Args:
            share: of the time that is left.
            least: so many whatever the share, as far as half of all the time that is left is enough for them;
                :data:`LEAST_LANES` whatever the time, and fewer of slow models.
        """
        fewest = _LEAST_SLOW_LANES if self.is_slow else LEAST_LANES
        least = min(least, max(fewest, int(self.left / 2 / self._lane_s)))
        return max(least, int(self.left * share / self._lane_s))


class RaceSeconds(LaneSeconds):
    """What races of one run take, and how long each may look.

    Args:
        run: the run that they are part of.
        timeout_s: for one model to open.
        races: whether candidates are raced while exploring.
        must: whether something was named: that is proven, whatever the time.

    Attributes:
        pace: scales the seconds of every race, and of the look at operators; tests race for tenths of seconds.
        programs: whether what may be delivered is timed in processes of a program started for that; tests leave it out.
    """

    pace: ClassVar[float] = 1.0
    programs: ClassVar[bool] = True

    def __init__(self, run: RunTime, timeout_s: float, *, races: bool, must: bool) -> None:
        super().__init__()
        self._run, self._timeout_s, self._races, self._must = run, timeout_s, races, must
        self._for_the_end_s = math.inf

    def _at_least(self, floor_s: float, seconds: float) -> float:
        """So many seconds, or what is begun may take whatever is left; what must be done has no bound."""
        return math.inf if self._must else max(floor_s, seconds)

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
            gain_width=_LOOK_WIDTH,
            fresh=False,
            most_samples=1 if self.is_slow else None,
            whole_s=whole_s,
        )

    def first_look(self, seconds: float) -> Effort:
        """Three rounds on one sample, and a few more where they are short."""
        whole_s = self._at_least(self._run.look_floor_s, _FIRST_RACE * self._left_before_proof())
        seconds = self.pace * min(seconds, 2 * LOOK_S)
        return Effort(
            seconds,
            least_rounds=3,
            most_rounds=7,
            width=0.05,
            gain_width=_LOOK_WIDTH,
            fresh=False,
            most_samples=1,
            whole_s=whole_s,
        )

    def proof_s(self, lanes: int) -> float:
        """Seconds that proving so many models takes: opened, compared on all samples, timed, some of them again."""
        opened_s = self._lane_s + (_PROGRAM_S if self.programs else 0.0)
        first = self._opened_s(lanes)
        if self.is_long:  # timed again only where there is time; sizes need no second race
            return first
        return first + self._final_s + ((AGAIN_LANES + 1) * opened_s + self._again_s if self._races else 0.0)

    @property
    def least_proof_s(self) -> float:
        """Seconds that proving one model takes at least: opened, compared, and timed once, half as long as usual."""
        return self._opened_s(1) + (0.5 * self._final_s if self._races else 0.0)

    def _opened_s(self, lanes: int) -> float:
        """Seconds until so many models are open beside the original, and compared on all samples."""
        expected_s = (lanes + 1) * (self._lane_s + (_PROGRAM_S if self.programs else 0.0))
        return max(expected_s + lanes * self._run.comparing_s, (lanes + 1) * self._proven_lane_s)

    @property
    def may_prove(self) -> bool:
        """Whether there is time for half of what one model takes to be open: with less it has no figure."""
        return self._must or self._opened_s(1) / 2 <= self._run.end_s

    def most_for_comparing(self, *, doubtful: bool) -> float:
        """Seconds for a model that is compared on all samples ahead of the last race; 0 where they are too few.

        It has what is left until that race must begin, of two models; where it is ``doubtful``, until the least proof
        of one must: a race of what does not hold is worth nothing.
        """
        left_s = self._run.spare_s - self.least_proof_s if doubtful else self._left_before_proof()
        return min(self._timeout_s, left_s) if self._lane_s + self._run.comparing_s <= left_s else 0.0

    @property
    def may_prove_more(self) -> bool:
        """Whether one more model is proven before the run ends, where those that were proven did not hold."""
        return self._must or self.least_proof_s <= self._run.spare_s

    def lanes_to_look_at(self, wanted: int) -> int:
        """How many of so many models have their first look before the last race must begin; 0 for none."""
        return max(0, min(wanted, int(self._left_before_proof() / self._lane_s) - 1))

    def _left_before_proof(self) -> float:
        """Seconds until the last race, of two models or one that runs long, must begin.

        Where a busy machine makes it look longer than half of the time, it has that half: what is not looked at
        cannot be proven either.
        """
        end_s = self._run.closing_s + self.proof_s(1 if self.is_long else AGAIN_LANES)
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

    def has_rounds_for(self, lanes: int) -> bool:
        """Whether the run has the time that so many models need to have any figure: opened, and a few rounds."""
        rounds_s = _LEAST_ROUNDS * (lanes + 1) * self._round_s
        return self._must or self._opened_s(lanes) + rounds_s <= self._run.spare_s

    @property
    def may_time_again(self) -> bool:
        """Whether there is time for a second race of what contends."""
        lanes = 2 if self.is_long else AGAIN_LANES + 1
        return self._run.left - self._run.closing_s > lanes * self._lane_s + 0.5 * self._again_s

    def final(self, lanes: int, *, drop: bool) -> Effort:
        """Fresh rounds for so many models that may be delivered."""
        again = self._races and not self.is_long
        again_s = (AGAIN_LANES + 1) * self._lane_s + self._again_s if again else 0.0
        effort = self._exact(self._final_s, lanes, least_rounds=10, drop=drop, after_s=again_s)
        left_s = self._run.spare_s - self._opened_s(lanes) - effort.seconds
        left_s -= again_s if left_s > again_s else 0.0  # where there is time for one race only, that has all of it
        return replace(effort, decide_s=max(effort.seconds, _decide_s(left_s)))

    def again(self, lanes: int, *, drop: bool) -> Effort:
        """Fresh rounds in fresh processes, for what contends; they end when the run does."""
        effort = self._exact(self._again_s, lanes, least_rounds=8, drop=drop, after_s=0.0)
        spare_s = self._run.spare_s
        return replace(effort, whole_s=min(effort.whole_s, spare_s), decide_s=max(effort.seconds, _decide_s(spare_s)))

    def aside(self, lanes: int) -> Effort:
        """Fresh rounds for what is beyond the budget."""
        return self._exact(self._again_s, lanes, least_rounds=8, drop=False, after_s=0.0)

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
            gain_width=_FINAL_WIDTH,
            drop=drop,
            open_timeout_s=self._timeout_s,
            patience_s=seconds / 2,
            fresh=self.programs and (self._must or opened_s <= end_s),
            most_samples=1 if self.is_long else None,
            whole_s=whole_s,
            decide_s=seconds,
        )


def _decide_s(left_s: float) -> float:
    """How much longer a race goes on for an answer, where so many seconds are left of the run."""
    return _DECIDE_SHARE * left_s if math.isfinite(left_s) else _DECIDE_S
