"""How long a race looks: looks while exploring, and the proof, in what a deadline leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from optim._engine.search.deadline import LEAST_S, Deadline
from optim._engine.search.lane_costs import LEAST_ROUNDS

LOOK_S = 1.0
"""The shortest race while exploring: with less, five rounds of a few lanes do not fit."""

_OPENING_SHARE = 0.4
"""Part of a lane's time that opening takes: it is not part of the race itself."""

_ROUNDS, _MOST_ROUNDS = 10, 40
_WIDTH, _GAIN_WIDTH = 0.015, 0.1
"""Of a race of what may be delivered: how many rounds, and how wide the best interval may be, as a share of the ratio
or of the gain. At a ratio of 0.5 the latter is 5 hundredths: two processes of one graph differ by some. A look has half
of the rounds, and twice the width."""


def look(time: Deadline, seconds: float, lanes: int, *, memory_only: bool = False) -> Effort:
    """A quick look at some lanes in ``seconds``, opening them included; memory is known when a lane is open."""
    seconds = max(LOOK_S, seconds - _OPENING_SHARE * time.lanes.lane_s * lanes)
    effort = _look(time, seconds, one_sample=time.lanes.is_slow)
    return replace(effort, least_rounds=LEAST_ROUNDS, most_rounds=LEAST_ROUNDS, drop=False) if memory_only else effort


def first_look(time: Deadline, seconds: float = 2 * LOOK_S) -> Effort:
    """A few rounds on one sample."""
    return _look(time, min(seconds, 2 * LOOK_S), one_sample=True)


def _look(time: Deadline, seconds: float, *, one_sample: bool) -> Effort:
    return Effort(
        time.lanes.pace * seconds,
        least_rounds=LEAST_ROUNDS if one_sample else _ROUNDS // 2,
        most_rounds=_MOST_ROUNDS // 2,
        width=2 * _WIDTH,
        gain_width=2 * _GAIN_WIDTH,
        fresh=False,
        most_samples=1 if one_sample else None,
        whole_s=time.for_look,
    )


def final(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds for so many models that may be delivered."""
    costs, effort = time.lanes, aside(time, lanes)
    again_s = 0.0 if costs.is_long else costs.again_s
    left_s = time.spare_s - costs.opened_s(lanes) - effort.seconds
    return _deciding(effort, left_s - (again_s if left_s > again_s else 0.0))  # if there is time for one, it has all


def again(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds in fresh processes, for what contends; they end when the run does."""
    effort = aside(time, lanes)
    return _deciding(replace(effort, whole_s=min(effort.whole_s, time.spare_s)), time.spare_s)


def aside(time: Deadline, lanes: int) -> Effort:
    """Fresh rounds on all samples, for what is beyond the budget too."""
    costs, seconds = time.lanes, time.lanes.race_s
    return Effort(
        costs.pace * seconds,
        least_rounds=min(_ROUNDS, max(LEAST_ROUNDS, costs.rounds_in(seconds, lanes + 1))),
        gain_width=_GAIN_WIDTH,
        drop=lanes > 1,
        open_timeout_s=time.timeout_s,
        patience_s=costs.pace * seconds / 2,
        fresh=costs.programs and (time.must or costs.opened_s(lanes) <= time.end_s),
        most_samples=1 if costs.is_long else None,
        whole_s=math.inf if time.must else time.end_s,
    )


def _deciding(effort: Effort, left_s: float) -> Effort:
    """The same that may go on for an answer while so many seconds last; without an end, those of a short run."""
    return replace(effort, decide_s=max(effort.seconds, left_s if math.isfinite(left_s) else LEAST_S))


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
    least_rounds: int = _ROUNDS
    most_rounds: int = _MOST_ROUNDS
    width: float = _WIDTH
    gain_width: float = 0.0
    drop: bool = True
    open_timeout_s: float = 300.0
    patience_s: float = 0.0
    fresh: bool = True
    most_samples: int | None = None
    decides: bool = False
    decide_s: float = 0.0
    whole_s: float = math.inf
