"""The ratio of two models' times over the rounds of a race, and what may be said by it."""

from __future__ import annotations

from dataclasses import dataclass

FASTER = 0.995
"""The upper end of the interval must lie below this for a result to be called faster."""

ROUNDS_FOR_95 = 6
"""The least and the greatest ratio of so many rounds hold the median in 97 % of cases. Of fewer rounds they hold it in
50 % (2 rounds) to 94 % (5 rounds): such an interval is not shown, and no verdict rests on it."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A paired ratio: below 1 is faster.

    Attributes:
        value: median over rounds.
        low: lower end of the 95 % confidence interval; of fewer than :data:`ROUNDS_FOR_95` rounds the least ratio.
        high: upper end; of fewer rounds the greatest ratio.
        rounds: rounds it rests on.
    """

    value: float
    low: float
    high: float
    rounds: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval; None if it rests on too few rounds to have one."""
        return (self.low, self.high) if self.rounds >= ROUNDS_FOR_95 else None

    @property
    def is_faster(self) -> bool:
        """Whether all of the interval lies below the line below which a result is called faster."""
        return self.interval is not None and self.high < FASTER

    @property
    def is_undecided(self) -> bool:
        """Whether more rounds may show that it is faster."""
        return self.low < FASTER and not self.is_faster

    @property
    def text(self) -> str:
        """The ratio with its interval, or with its rounds if they are too few for one."""
        if self.interval is None:
            return f"{self.value:.2f} in {self.rounds} round{'s' * (self.rounds != 1)}"
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"
