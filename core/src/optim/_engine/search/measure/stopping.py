"""When a race has enough rounds: more of them would change nothing that is asked of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optim._engine.search.effort import Effort
from optim._engine.search.taste import WORTH
from optim.goal import FASTER, Ratio

_NEXT_LOOK = 1.25
"""Times as many rounds as at a look at the intervals, when the next one is due. A race that ends at the first of many
looks at which its interval is narrow ends at a lucky one."""


@dataclass(frozen=True, slots=True)
class Leader:
    """How a race stands.

    Attributes:
        best: ratio of the best lane.
        alone: whether no other lane that still races can be as good: their intervals lie above its own.
    """

    best: Ratio
    alone: bool

    @property
    def may_be_faster(self) -> bool:
        """Whether noise leaves it open if the best is faster, and more rounds may tell.

        If the median is no faster, and the interval leaves no gain that is worth them, they do not.
        """
        return self.best.is_undecided and (self.best.low <= WORTH or self.best.value < FASTER)

    def is_clear(self, effort: Effort) -> bool:
        """Whether the best lane's ratio is known as well as is asked for."""
        best = self.best
        if best.rounds < effort.least_rounds or (effort.decides and self.may_be_faster):
            return False
        if effort.decides and best.is_undecided:
            return True  # hardly faster if at all: more rounds are not worth their time
        of_gain = effort.gain_width * abs(1 - best.value) if self.alone else 0.0
        return best.high - best.low < max(effort.width * best.value, of_gain)


def next_look_after(rounds: int) -> int:
    """After how many rounds intervals are looked at again, where they have been after so many."""
    return math.ceil(_NEXT_LOOK * rounds)
