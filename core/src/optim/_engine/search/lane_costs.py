"""What lanes of races take (a process, a model opened, its runs), and what proving takes: guessed, then measured."""

from __future__ import annotations

from typing import ClassVar

from optim._engine.jobs.lane import LONG_S

_START_S = 0.2
"""What a process with a runtime takes to start: a first guess, corrected by every race; 0.05 s as a fork, 0.4 s of
processor time for the program that forks the lanes of what may be delivered."""

_STARTING_SHARE = 0.6
"""Part of the time to open a model alone that a lane takes: lanes open two at a time."""

_RUNS_A_LANE = 30
"""Runs of a model for its warm-up and for the rounds without which nothing can be said."""

_LANE_RUN_S = 0.6
"""A model whose runs take longer than this together gets fewer of them."""

_SLOW_S = 0.05
"""A model whose run takes longer is slow: looks at it have three rounds, on one sample."""

RACE_S = 7.0
"""For a race of what may be delivered: it ends before that if the interval is narrow."""

LEAST_ROUNDS = 3
"""Of slow models: the report's interval says how little that is."""

_PROGRAM_S = 0.7
"""What a program of its own takes to start beyond a fork: its imports."""

AGAIN_LANES = 2
"""Models that are timed a second time: what contends is seldom more."""


class LaneCosts:
    """Seconds of lanes on one target: expected first, then learned from races.

    Attributes:
        open_s: that a lane is expected to take until its model is open and compared.
        round_s: that one model takes in a round.
        race_s: of a race of what may be delivered.
        pace: scales the seconds of every race, and of the look at operators; tests race for tenths of seconds.
        programs: whether what may be delivered is timed in processes of a program started for that; tests leave it out.
    """

    pace: ClassVar[float] = 1.0
    programs: ClassVar[bool] = True

    def __init__(
        self,
        open_s: float = 0.0,
        run_s: float = 0.0,
        samples: int = 1,
        *,
        comparing_s: float = 0.0,
        race_s: float = RACE_S,
        races: bool = True,
    ) -> None:
        self._run_s, self._comparing_s, self.races = run_s, comparing_s, races
        of_sample_s = run_s if self.is_long else 2 * run_s  # one that is not timed, and one that is
        self.round_s = of_sample_s * (1 if self.is_long else max(1, samples))
        least_s = (1 + LEAST_ROUNDS) * of_sample_s
        self._runs_s = least_s if self.is_long else min(_RUNS_A_LANE * run_s, max(_LANE_RUN_S, least_s))
        self.open_s = _START_S + _STARTING_SHARE * open_s
        self.race_s = race_s

    def note_lanes(self, open_s: float) -> None:
        """Note what a lane of the last race took to open; half of the expectation goes by it."""
        self.open_s = (self.open_s + open_s) / 2

    @property
    def lane_s(self) -> float:
        """Seconds that a lane is expected to take: its model opened, and its runs; slow models run less often."""
        return self.open_s + self._runs_s

    @property
    def is_long(self) -> bool:
        """Whether a run of the model takes so long that each counts: it is timed on one sample, without warm-up."""
        return self._run_s > LONG_S

    @property
    def _program_s(self) -> float:
        return self.lane_s + (_PROGRAM_S if self.programs else 0.0)

    def opened_s(self, lanes: int) -> float:
        """Seconds until so many models are open beside the original, and compared on all samples."""
        return (lanes + 1) * self._program_s + lanes * self._comparing_s

    @property
    def is_slow(self) -> bool:
        """Whether a run of the model takes so long that there are few of them."""
        return self._run_s > _SLOW_S

    @property
    def again_s(self) -> float:
        """Seconds that timing what contends again takes; sizes need one race."""
        return (AGAIN_LANES + 1) * self._program_s + self.race_s if self.races else 0.0

    def proof_s(self, lanes: int) -> float:
        """Seconds that proving so many models takes: opened, compared on all samples, timed, some of them again.

        What runs long is timed again only if there is time.
        """
        return self.opened_s(lanes) + (0.0 if self.is_long else self.race_s + self.again_s)

    @property
    def least_proof_s(self) -> float:
        """Seconds that proving one model takes at least: opened, compared, and timed once, half as long as usual."""
        return self.opened_s(1) + (0.5 * self.race_s if self.races else 0.0)

    def rounds_in(self, seconds: float, lanes: int) -> int:
        """How many rounds of so many models fit into seconds."""
        return int(seconds / max(lanes * self.round_s, 1e-9))
