"""The seconds of a whole run: those that were given or announced, and what preparing and the end may take of them.

==============================  ====================================  ====================================
what                            how long                              what more of it would buy
==============================  ====================================  ====================================
the whole run                   what the user gave, else 30 to 300 s  see the search
running the original            20 % of it: a third each for finding  samples that drift is measured on, and a
                                feeds and telling what rounding       tolerance from more settings
                                does, a quarter for running them;
                                one run whatever that takes, until
                                20 % more than all are over
comparing one result with it    5 % of it                             the same
writing the result              1.5 s, and 1 s for each 300 MB; what  nothing
                                reading the model took, if more
the proof of what is delivered  until 20 % more are over, and never   a result where a machine is very busy
                                beyond 300 s where the user gave
                                nothing; 15 s where it is shorter than
                                30 s
all else of the end             until it is over                      a surer result
==============================  ====================================  ====================================

It stands still while the run waits for its turn at the machine's clock. Exporting a source comes before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from time import time as wall_clock

from optim._engine.plugins.guard import is_a_command
from optim._engine.search.settings import AUTO, SearchSeconds
from optim.errors import ExitStatus, OptimError
from optim.jobs.doing import PluginCall

LEAST_S, MOST_S = 30.0, 280.0
"""What is announced where the user gave nothing: in less the end alone takes half of it; who wants more says so."""

WHOLE_S = 300.0
"""After which a run has ended that was announced: what is beyond is for a proof that a busy machine draws out."""

_WHOLE_END_S = 80.0
"""A run that is shorter has its part of the seconds of the end: they are 28 together."""

_LEAST_PART = 0.2
"""Of them, however short the run: with less, what was named is proven by three rounds."""

_ORIGINAL_SHARE = 0.2
"""Of the run, for what is done with the original before anything is tried: samples, reference, tolerance."""

_COMPARING_SHARE = 0.05
"""Of the run, for comparing one result on all samples: some six are."""

_FLOOR_SHARE, _SHORT_FLOOR_S = 0.2, 15.0
"""The proof of what is delivered goes on until so much more is over than was announced: a shorter race proves nothing.
A run of less than 30 s always has its 15 s for it."""

_FLOOR_OF_LOOKS = 0.25
"""Of that, for a race while exploring: with more, it and the end together take a third more than was announced."""

_MOST_SLOWNESS = 3.0
"""What the start of a command tells of its end at most: it waits for files that it reads too. Beside sixteen other
programs on two processors starts took six times their processor time, and closing 2 to 7 s."""

_CLOSING_S, _WRITTEN_BYTES_A_SECOND = 1.5, 300e6
"""Report and lock; and the model, copied and hashed: measured with models of 1 GB."""

_LEAST_FOR_ORIGINAL_S = 5.0
"""However short the run: a start alone takes a second of it, more on a busy machine."""

_RUNS_TO_FIND_ANYTHING = 12
"""Runs of the original without which no search finds anything: a reference, a candidate, a race of three rounds."""

ASKING_S = 120.0
"""For one pass to say what it offers, and no more than what is left of the search: it only ends one that hangs."""

REFUSAL_S = 60.0
"""For the passes that the user named to look at the model: it only ends one that hangs."""


class RunTime:
    """The seconds of one run; it begins when this is made.

    Args:
        asked_s: what the user gave; ``auto``: they are announced when the model is known.
        now: seconds of a clock that never goes back.
        start: what the command took before; None: that of this process.

    Attributes:
        announced_s: of the whole run; infinite until they are known.
        now: the clock.
        open_s: what the original takes to open.
        run_s: what one run of it takes.
        closing_s: for writing what came of it.
        comparing_s: what one result takes to be compared on all samples.
        try_s: what trying one more pass is guessed to take; 0 until it is known.
        notes: what there was no time for, a sentence each.
    """

    def __init__(
        self, asked_s: SearchSeconds, now: Callable[[], float] = time.monotonic, start: Start | None = None
    ) -> None:
        self.now = now
        start = start or start_of_command()
        self._begin = now() - start.seconds
        self._slowness = min(_MOST_SLOWNESS, start.slowness)
        self.announced_s = math.inf if asked_s == AUTO else asked_s
        self._most_s = WHOLE_S if asked_s == AUTO else math.inf
        self.open_s = self.run_s = self.closing_s = self.comparing_s = self.try_s = 0.0
        self.notes: list[str] = []
        self._reading_s = 0.0

    def announce(self, seconds: float) -> None:
        """Say how long the run takes, where the user did not."""
        self.announced_s = seconds

    def expect(self, *, open_s: float, run_s: float, size_bytes: int) -> None:
        """Note what the original takes to open and to run, and how large it is."""
        self.open_s, self.run_s = open_s, run_s
        closing_s = (_CLOSING_S + size_bytes / _WRITTEN_BYTES_A_SECOND) * self._slowness
        self.closing_s = max(closing_s, self._reading_s)

    def note_reading(self, seconds: float) -> None:
        """Note what bringing the model into the store took: delivering it copies and hashes it once more."""
        self._reading_s = seconds

    def note(self, text: str) -> None:
        """Have the report say once what there was no time for."""
        if text not in self.notes:
            self.notes.append(text)

    def compares(self, samples: int) -> None:
        """Note on how many samples each result is compared with the original."""
        self.comparing_s = samples * self.run_s

    @property
    def more_s(self) -> int:
        """Seconds to ask for if noise left a verdict open: twice as many, in whole minutes."""
        return 60 * math.ceil(2 * (self.announced_s if math.isfinite(self.announced_s) else self.spent) / 60)

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return self.now() - self._begin

    @property
    def left(self) -> float:
        """Seconds that are left of what was announced; below zero when they are over."""
        return self.announced_s - self.spent

    @property
    def part(self) -> float:
        """The part of the full seconds of an end that this run has, 0..1."""
        return max(_LEAST_PART, min(1.0, self.announced_s / _WHOLE_END_S))

    @property
    def spare_s(self) -> float:
        """Seconds for what only makes a result surer, or tells more of it: it ends when the run does."""
        return self.left - self.closing_s

    @property
    def end_s(self) -> float:
        """Seconds until the proof of what is delivered must be over: later than announced, where it must be."""
        if math.isinf(self.announced_s):
            return math.inf
        return max(self.spare_s + self.floor_s, self.floor_s if self.announced_s < LEAST_S else 0.0)

    @property
    def look_floor_s(self) -> float:
        """Seconds that a race while exploring has whatever is left; the end has its own."""
        return self.floor_s if self.announced_s < LEAST_S else min(_FLOOR_OF_LOOKS * self.floor_s, self.end_s)

    @property
    def floor_s(self) -> float:
        """Seconds that the proof of what is delivered may take beyond what was announced."""
        if math.isinf(self.announced_s):
            return 0.0
        floor_s = max(_FLOOR_SHARE * self.announced_s, _SHORT_FLOOR_S if self.announced_s < LEAST_S else 0.0)
        return max(0.0, min(floor_s, self._most_s - self.announced_s))

    @property
    def for_original(self) -> float:
        """Seconds for what is done with the original before anything is tried."""
        return _ORIGINAL_SHARE * (MOST_S if math.isinf(self.announced_s) else self.announced_s)

    @property
    def most_for_original(self) -> float:
        """Seconds after which a run has ended whatever the original is doing."""
        whole_s = min(self._most_s, (1 + _FLOOR_SHARE) * self.announced_s) - _CLOSING_S * self._slowness
        return max(_LEAST_FOR_ORIGINAL_S, whole_s - self.spent)

    def samples_to_compare(self, run_s: float, available: int) -> int:
        """On how many samples there is time to compare a result, one at least."""
        if math.isinf(self.announced_s) or run_s <= 0:
            return available
        return max(1, min(available, int(_COMPARING_SHARE * self.announced_s / run_s)))


def original_too_slow(name: str, took_s: float, announced_s: float, call: PluginCall | None = None) -> OptimError:
    """The error of a run whose model did not run once in all of its time.

    Args:
        name: of the model's file.
        took_s: after which it was stopped.
        announced_s: of the whole run; infinite where nothing was announced yet.
        call: the plugin's code that ran then.
    """
    whole_s = 0.0 if math.isinf(announced_s) else announced_s
    enough = math.ceil(max(_RUNS_TO_FIND_ANYTHING * took_s, 2 * whole_s) / LEAST_S) * LEAST_S
    if call is not None and call.first:
        return OptimError(
            "backend-no-answer",
            f"{name} was not run once",
            f"after {took_s:.0f} s, when the time limit was reached, {call.text}: that call had not returned",
            f"--search-seconds {enough:.0f} if it is only slow; if it hangs, report it to the package below, which "
            "brings the backend",
            call.release,
            ExitStatus.TARGET_UNAVAILABLE,
        )
    return OptimError(
        "original-too-slow",
        f"there was no time to run {name} once",
        f"it was still opening or running after {took_s:.0f} s, when the time limit of the run was reached",
        f"--search-seconds {enough:.0f}, or smaller samples with --data",
    )


@dataclass(frozen=True, slots=True)
class Start:
    """What this command took until this was asked first, when its run began.

    Attributes:
        seconds: of wall; 0 in a user's program.
        processor_s: of its processor; the rest it waited for files, and for other programs.
    """

    seconds: float = 0.0
    processor_s: float = 0.0

    @property
    def slowness(self) -> float:
        """How many times longer things take than where nothing else runs, about; 1 at least."""
        return max(1.0, self.seconds / self.processor_s) if self.processor_s > 0 else 1.0


@cache
def start_of_command() -> Start:
    """Of this process; what a user's program did before is no part of a run."""
    import psutil

    if not is_a_command():
        return Start()
    process = psutil.Process()
    used = process.cpu_times()
    return Start(max(0.0, wall_clock() - process.create_time()), used.user + used.system)
