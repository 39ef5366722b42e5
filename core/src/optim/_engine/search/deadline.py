"""The one clock of a run, and what it is kept for.

The run has what the user gave, or what was announced. What must be done at its end is reserved; all else competes for
what is left:

==================  ============================================================  ==================================
reserved            how long                                                      for
==================  ============================================================  ==================================
``WRITING``         1.5 s, and 1 s for each 300 MB; what reading took, if more    the report, the lock, the model
``PROOF``           a fifth for four models, or what two take; half at most       the last races
``OTHERS``          what a search on several targets leaves to the others         the other targets
``RACES``           a fifth of the search                                         timing what was found
``LATER``           the share of later stages                                     their candidates
==================  ============================================================  ==================================

The proof may take 20 % more than the run has: a shorter race proves nothing. The clock stands still while the run waits
for its turn at the machine's. Exporting a source comes before it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from time import time as wall_clock

from optim._engine.jobs.job import STARTING_S
from optim._engine.jobs.prepare import Answer as Prepared
from optim._engine.plugins.guard import is_a_command
from optim._engine.search.lane_costs import AGAIN_LANES, LEAST_ROUNDS, RACE_S, LaneCosts
from optim._engine.search.settings import AUTO, SearchSeconds
from optim._engine.search.taste import FEW, KEPT

LATER, RACES, OTHERS, PROOF, WRITING = _RESERVES = ("later stages", "races", "other targets", "proof", "writing")
"""What seconds are reserved for, in the order in which they come."""

LEAST_S, MOST_S = 30.0, 250.0
"""Seconds that are announced if the user gave none: in less the end alone takes half of it. A busy machine may draw the
proof out by a fifth more, so a run has ended after 300 s."""

_WHOLE_END_S = 80.0
"""A run that is shorter has its part of the seconds of the last races and of the grace of a candidate."""

_COMPARING_SHARE = 0.05
"""Of the run, for comparing one result on all samples: some six are."""

_MOST_SLOWNESS = 3.0
"""What the start of a command tells of its end at most: it waits for files that it reads too. Beside sixteen other
programs on two processors starts took six times their processor time, and closing 2 to 7 s."""

_CLOSING_S, BYTES_A_SECOND = 1.5, 300e6
"""Report and lock; and the model, copied and hashed: measured with models of 1 GB."""

GRACE_S = 10.0
"""For what was begun in time: more lets slower passes end, and every search may end so much later."""


class Deadline:
    """The seconds of one run, from when this is made; :meth:`of_search` makes it that of a search.

    Args:
        asked_s: what the user gave; ``auto``: they are announced when the model is known, and without end until then.
        start: what the command took before; None: that of this process.

    Attributes:
        announced_s: of the whole run; infinite until they are known.
        comparing_s: what one result takes to be compared on all samples.
        try_s: what trying one more pass is guessed to take; 0 until it is known.
        search_s: that the search began with.
        timeout_s: the most that one candidate may take, and one model to open.
        must: whether something was named: that is proven, whatever the time.
    """

    lanes: LaneCosts
    must: bool
    explores_since: float
    grace_s: float
    search_s: float
    timeout_s: float

    def __init__(
        self, asked_s: SearchSeconds = AUTO, now: Callable[[], float] = time.monotonic, start: Start | None = None
    ) -> None:
        start = start or start_of_command()
        self.now = now
        self._begin = now() - start.seconds
        self._slowness = min(_MOST_SLOWNESS, start.slowness)
        self.announced_s = math.inf if asked_s == AUTO else asked_s
        self._is_given = asked_s not in (AUTO, 0)
        self.comparing_s = self.try_s = 0.0
        self.notes: list[str] = []
        self._reserves: dict[str, float] = {}

    def note_size(self, size_bytes: int) -> None:
        """Note how large the original is: writing the result takes as long as that."""
        self.note_reading((_CLOSING_S + size_bytes / BYTES_A_SECOND) * self._slowness)

    def note_reading(self, seconds: float) -> None:
        """Note what bringing the model into the store took: delivering it copies and hashes it once more."""
        self.reserve(WRITING, max(seconds, self._reserves.get(WRITING, 0.0)))

    def note(self, text: str) -> None:
        """Have the report say once what there was no time for; nothing for an empty text."""
        if text and text not in self.notes:
            self.notes.append(text)

    def of_search(self, prepared: Prepared, timeout_s: float, *, races: bool = True, must: bool = False) -> Deadline:
        """That of a search that begins now and leaves this run time for its end: the same clock, its own reserves."""
        if math.isinf(self.announced_s):
            self.announced_s = MOST_S
        one = self.to_prove(prepared, timeout_s, races=races, must=must)
        most_s, least_s = (one.lanes.proof_s(lanes if races else 1) for lanes in (1 + FEW, AGAIN_LANES))
        proof_s = max(least_s, min(most_s, KEPT * one.left))  # a size needs no race, its latency does
        one.reserve(PROOF, min(proof_s, one.spare_s - max(0.0, one.left) / 2))  # with more, there is little to prove
        one.explore(max(0.0, one.before(PROOF)))
        return one

    def to_prove(self, prepared: Prepared, timeout_s: float, *, races: bool = True, must: bool = False) -> Deadline:
        """The same where nothing is searched; for its arguments see :meth:`of_search`."""
        one, samples = copy(self), len(prepared.timed)
        part = min(1.0, max(LEAST_S, self.announced_s) / _WHOLE_END_S)  # with less, what was named has no interval
        one.timeout_s, one.must, one._reserves = timeout_s, must, dict(self._reserves)
        one.search_s, one.explores_since = 0.0, self.now()
        one.grace_s = part * GRACE_S
        one.lanes = LaneCosts(
            prepared.open_s, prepared.run_s, samples, comparing_s=self.comparing_s, race_s=part * RACE_S, races=races
        )
        return one

    def explore(self, seconds: float) -> None:
        """Explore for so many seconds from now on; of several targets the others have the rest."""
        self.search_s, self.explores_since = seconds, self.now()
        self.reserve(OTHERS, self.before(PROOF) - seconds)
        self.reserve(RACES, KEPT * seconds if self.lanes.races else 0.0)

    # what is left

    def reserve(self, name: str, seconds: float) -> None:
        """Keep so many seconds for something."""
        self._reserves[name] = seconds

    def before(self, name: str) -> float:
        """Seconds until what is reserved for something must begin; below zero when they are over."""
        return self.left - sum(self._reserves.get(one, 0.0) for one in _RESERVES[_RESERVES.index(name) :])

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return self.now() - self._begin

    @property
    def left(self) -> float:
        """Seconds that are left of the whole run; below zero when they are over."""
        return self.announced_s - self.spent

    @property
    def spare_s(self) -> float:
        """Seconds for what only makes a result surer, or tells more of it: it ends when the run does."""
        return self.before(WRITING)

    @property
    def to_explore(self) -> float:
        """Seconds of the search that are left, 0 at least."""
        return max(0.0, self.before(OTHERS))

    @property
    def before_last_race(self) -> float:
        """Seconds until the last race, of two models or one that runs long, must begin.

        Where a busy machine makes it look longer than what is reserved, it has that: what is not looked at cannot be
        proven either.
        """
        proof_s = self.lanes.proof_s(1 if self.lanes.is_long else AGAIN_LANES)
        return self.spare_s - min(proof_s, self._reserves.get(PROOF, math.inf))

    @property
    def is_up(self) -> bool:
        """Whether only the last race fits into what is left of the run."""
        return self.before_last_race <= 0

    @contextmanager
    def leaving(self, share: float) -> Iterator[None]:
        """Leave a share of the time for candidates alone, 0..1: what begins inside has the rest."""
        self.reserve(LATER, share * max(0.0, self.before(LATER)))
        try:
            yield
        finally:
            self.reserve(LATER, 0.0)

    @contextmanager
    def lending(self, *, proof: bool = True) -> Iterator[None]:
        """Repair in the time for races too; with ``proof`` in the time of the end, but for the least proof."""
        before = self._reserves
        self._reserves = {**before, RACES: 0.0}
        if proof:  # nothing is there yet to prove
            least_s = min(before.get(PROOF, math.inf), self.lanes.least_proof_s)
            self._reserves |= {OTHERS: 0.0, PROOF: least_s}
        try:
            yield
        finally:
            self._reserves = before

    # how long something may take

    def for_candidate(self, *, named: bool = False) -> float:
        """Seconds after which a candidate is stopped.

        What the user named has what is left of the run that the user gave, however short that is some seconds; in a
        run that was announced, or that searches nothing, its full time.
        """
        if named:
            return min(self.timeout_s, max(self.spare_s, GRACE_S)) if self._is_given else self.timeout_s
        return min(self.timeout_s, self.before(LATER) + self.grace_s)

    def most_for_repair(self, took_s: float) -> float:
        """Seconds after which a repair is stopped: what it finds must be made as before, in so long, and proven."""
        return math.inf if self.must else max(0.0, self.spare_s - self.lanes.least_proof_s - took_s)

    @property
    def for_reapplying(self) -> float:
        """Seconds for one step that is known, though the search is over: the floor of the proof, or what is left."""
        late_s = min(self.floor_s, self.end_s)
        return self.timeout_s if self.must else min(self.timeout_s, max(late_s, self.before_last_race))

    # the end

    @property
    def floor_s(self) -> float:
        """Seconds that the proof of what is delivered may take beyond what was announced: a shorter one proves nothing.

        A run of less than 30 s may end as late as one of 30 s.
        """
        if math.isinf(self.announced_s):
            return 0.0
        return (1 + KEPT) * max(LEAST_S, self.announced_s) - self.announced_s

    @property
    def end_s(self) -> float:
        """Seconds until the proof of what is delivered must be over: later than announced, where it must be."""
        return self.spare_s + self.floor_s

    @property
    def for_look(self) -> float:
        """Seconds for a race that proves nothing: a fifth of the proof's floor, whatever is left."""
        late_s = min(KEPT * self.floor_s, self.end_s)
        return math.inf if self.must else max(late_s, self.before_last_race)

    @property
    def may_prove(self) -> bool:
        """Whether there is time for half of what one model takes to be open: with less it has no figure."""
        return self.must or self.lanes.opened_s(1) / 2 <= self.end_s

    @property
    def may_prove_more(self) -> bool:
        """Whether one more model is proven before the run ends, where those that were proven did not hold."""
        return self.must or self.lanes.least_proof_s <= self.spare_s

    def lanes_at_the_end(self, wanted: int) -> int:
        """How many of so many models there is time to prove, one at least."""
        wanted = min(wanted, max(AGAIN_LANES, self.lanes.rounds_in(self.lanes.race_s, LEAST_ROUNDS) - 1))
        fit = (lanes for lanes in range(1, wanted + 1) if self.lanes.proof_s(lanes) <= self.spare_s)
        return max(fit, default=min(1, wanted))

    @property
    def more_s(self) -> int:
        """Seconds to ask for if noise left a verdict open: twice as many, in whole minutes."""
        whole_s = self.announced_s if math.isfinite(self.announced_s) else self.spent
        return 60 * max(1, math.ceil(2 * whole_s / 60))

    # the original

    @property
    def for_original(self) -> float:
        """Seconds for what is done with the original before anything is tried."""
        return KEPT * self._known_s

    def most_for_original(self, named: bool = False) -> float:
        """Seconds after which the run ends whatever the original does; a named pass has no end but a given one."""
        if named and not self._is_given:
            return math.inf
        return max(GRACE_S if named else STARTING_S, self._known_s - _CLOSING_S - self.spent)

    @property
    def _known_s(self) -> float:
        """Returns the announced seconds; until they are known, the most that they may be."""
        return MOST_S if math.isinf(self.announced_s) else self.announced_s

    def samples_to_compare(self, run_s: float, available: int) -> int:
        """On how many samples there is time to compare a result, one at least."""
        if math.isinf(self.announced_s) or run_s <= 0:
            return available
        return max(1, min(available, int(_COMPARING_SHARE * self.announced_s / run_s)))


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
