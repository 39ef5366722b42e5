"""What a race is asked to do in its time."""

from __future__ import annotations

import math
from dataclasses import dataclass


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
