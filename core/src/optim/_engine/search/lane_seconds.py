"""What a lane of a race takes: a process, a model opened in it, and the runs without which nothing can be said."""

from __future__ import annotations

from abc import ABC, abstractmethod

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

    def expect_lanes(self, open_s: float, run_s: float, samples: int = 1) -> None:
        """Note what opening the original and running it once took, and on how many samples it is timed."""
        self._run_s = run_s
        self._round_s = run_s if self.is_long else _RUNS_A_ROUND * run_s * max(1, samples)
        self._lane_s = _START_S + _STARTING_SHARE * open_s + self._runs_s

    def note_lanes(self, open_s: float) -> None:
        """Note what a lane of the last race took to open; half of the expectation goes by it."""
        self._lane_s = 0.5 * self._lane_s + 0.5 * (open_s + self._runs_s)

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
