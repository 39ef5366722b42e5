"""How long a race looks: looks while exploring, and the proof, in what a deadline leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from optim._engine.search.deadline import Deadline
from optim._engine.search.lane_costs import LEAST_ROUNDS

LOOK_S = 1.0
"""The shortest race while exploring: with less, five rounds of a few lanes do not fit."""

_LOOK_ROUNDS = 5
"""Of a look while exploring: more leave fewer candidates."""

_DECIDE_S, _DECIDE_SHARE = 60.0, 0.8
"""How much longer the last of them goes on while noise leaves open if the best is faster. The second is the share of
what is left of the run: more seconds decide more. The first is for a run without an end, such as that of a lock."""

_LOOK_WIDTH, _FINAL_WIDTH = 0.2, 0.1
"""Shares of what a model gains that its interval may be wide: while exploring, and of what is delivered. At a ratio of
0.5 these are 10 and 5 hundredths; two processes of one graph differ by some."""


def look(time: Deadline, seconds: float, lanes: int, *, memory_only: bool = False) -> Effort:
    """A quick look at some lanes in ``seconds``, opening them included; memory is known when a lane is open."""
    effort = _look(time, max(LOOK_S, seconds - time.lanes.open_s * lanes), one_sample=time.lanes.is_slow)
    return replace(effort, least_rounds=LEAST_ROUNDS, most_rounds=_LOOK_ROUNDS, drop=False) if memory_only else effort


def first_look(time: Deadline, seconds: float = 2 * LOOK_S) -> Effort:
    """A few rounds on one sample."""
    return _look(time, min(seconds, 2 * LOOK_S), one_sample=True)


def _look(time: Deadline, seconds: float, *, one_sample: bool) -> Effort:
    return Effort(
        time.lanes.pace * seconds,
        least_rounds=LEAST_ROUNDS if one_sample else _LOOK_ROUNDS,
        most_rounds=20,
        width=0.03,
        gain_width=_LOOK_WIDTH,
        fresh=False,
        most_samples=1 if one_sample else None,
        whole_s=time.for_look,
    )


def final(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds for so many models that may be delivered."""
    costs = time.lanes
    again_s = 0.0 if costs.is_long else costs.again_s
    effort = _exact(time, costs.race_s, lanes, least_rounds=10, drop=lanes > 1)
    left_s = time.spare_s - costs.opened_s(lanes) - effort.seconds
    left_s -= again_s if left_s > again_s else 0.0  # where there is time for one race only, that has all of it
    return replace(effort, decide_s=max(effort.seconds, _decide_s(left_s)))


def again(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds in fresh processes, for what contends; they end when the run does."""
    effort = aside(time, lanes, drop=lanes > 1)
    spare_s = time.spare_s
    return replace(effort, whole_s=min(effort.whole_s, spare_s), decide_s=max(effort.seconds, _decide_s(spare_s)))


def aside(time: Deadline, lanes: int, *, drop: bool = False) -> Effort:
    """Fresh rounds for what is beyond the budget."""
    return _exact(time, time.lanes.race_s, lanes, least_rounds=8, drop=drop)


def _exact(time: Deadline, seconds: float, lanes: int, *, least_rounds: int, drop: bool) -> Effort:
    costs = time.lanes
    least_rounds = min(least_rounds, max(LEAST_ROUNDS, costs.rounds_in(seconds, lanes + 1)))
    seconds *= costs.pace
    return Effort(
        seconds=seconds,
        least_rounds=least_rounds,
        most_rounds=40,
        width=0.015,
        gain_width=_FINAL_WIDTH,
        drop=drop,
        open_timeout_s=time.timeout_s,
        patience_s=seconds / 2,
        fresh=costs.programs and (time.must or costs.opened_s(lanes) <= time.end_s),
        most_samples=1 if costs.is_long else None,
        whole_s=math.inf if time.must else time.end_s,
        decide_s=seconds,
    )


def _decide_s(left_s: float) -> float:
    """How much longer a race goes on for an answer, where so many seconds are left of the run."""
    return _DECIDE_SHARE * left_s if math.isfinite(left_s) else _DECIDE_S


@dataclass(frozen=True, slots=True)
class Effort:
    """How long a race looks.

    Attributes:
        seconds: of racing, after the lanes are open.
        least_rounds: before anything is decided.
        most_rounds: at which it ends.
        width: ends earlier when the best lane's interval is narrower than this share.
        gain_width: ends earlier, too, when it is narrower than this share of what the best lane gains or loses, and no
            other lane can be as good: half the time need not be known to a hundredth of it.
        drop: whether beaten lanes leave the race.
        open_timeout_s: for opening, comparing and warming up.
        patience_s: how much longer to wait for enough quiet rounds where other processes use the machine.
        fresh: whether lanes are forks of a program that is started for this race, where there are forks, else programs.
            The memory of forks of one server lies where it lay in the last race: what is delivered is timed elsewhere.
        most_samples: so many of the shapes are timed; None: all.
        decides: whether rounds go on while noise leaves open if the best is faster.
        decide_s: how much longer they do at most.
        whole_s: for all of it, opening included: what is not known by then stays unknown, and a round that was begun
            does not count.
    """

    seconds: float
    least_rounds: int = 6
    most_rounds: int = 40
    width: float = 0.02
    gain_width: float = 0.0
    drop: bool = True
    open_timeout_s: float = 300.0
    patience_s: float = 0.0
    fresh: bool = True
    most_samples: int | None = None
    decides: bool = False
    decide_s: float = 0.0
    whole_s: float = math.inf
