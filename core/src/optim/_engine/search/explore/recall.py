"""Chains that won on near models in earlier runs: they are tried before anything else is.

A chain is applied to the original step by step, compared, and timed for a few rounds, as first looks are. If it is as
fast here as it was there, the search need find nothing else: it goes to the proof, and ends the run if the proof says
the same. In every other case the search begins as if nothing had been tried; what holds is on the board. So a wrong
record costs the seconds of its candidates.

A record of a search with less time, or of other versions, has its chain tried, and ends no search.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.experience import Experience, keep, nearest, of_run, read
from optim._engine.search.explore.expand import Expander
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.efforts import LOOK_S
from optim._engine.search.plan import Plan, Planned
from optim._engine.search.rows import step_of
from optim._engine.search.select.repair import Near
from optim._engine.search.state import Candidate, Measured, StepStatus, Trial
from optim._engine.search.taste import CLEARLY_FASTER
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.options import parse_options
from optim.passes import Role

_MOST = 2
"""Chains that are tried: a third one won on the nearest models seldomer than what the search looks at first."""

_AS_LONG = 2.0
"""Factor by which the seconds of two runs of one architecture differ: an estimate of a model learns from run to run."""


class Recall:
    """What earlier runs tell one search; of a search of latency on one target, without passes that must hold.

    Attributes:
        is_on: whether records are read and written; tests of searches go without.
        won: the record whose chain ends the search; None: none does.
    """

    is_on: ClassVar[bool] = True

    def __init__(
        self, bench: Workbench, plan: Plan, expander: Expander, clock: Clock, board: Board, time: Deadline
    ) -> None:
        self._bench = bench
        self._plan = plan
        self._expander = expander
        self._clock = clock
        self._board = board
        self._time = time
        self.won: Experience | None = None
        self._run: Experience | None = None
        self._known: list[Experience] = []

    def run(self) -> list[Measured]:
        """Returns the chain that won again, to be proven; nothing if the search is to begin."""
        if not self._may_learn:
            return []
        self._run = of_run(self._bench)
        if self._bench.settings.fresh:
            return []
        self._known, damaged = read(self._bench.store)
        self._bench.deadline.note(damaged)
        chosen = nearest(self._known, self._run)[:_MOST]
        if not chosen:
            return []
        self._bench.say(f"trying what won on {chosen[0].model}")
        for one in chosen:
            candidate = self._made(one)
            items = self._clock.first_look([candidate], 2 * LOOK_S) if candidate is not None else []
            self._board.explored(items)
            for item in items:
                self._board.timed(item, None)
                if self._is_whole(one) and _is_as_fast(item, one, item.low):
                    self.won = one
                    return [item, Measured(self._bench.original, 1.0, 1.0, 1.0)]
        self._time.explore(self._time.to_explore)  # first looks have their share of what is left
        return []

    def stands(self, winner: Measured | None) -> bool:
        """Whether the proof of the chain says what its record said: then nothing else is tried, and rows say so."""
        if self.won is None or winner is None or not _is_as_fast(winner, self.won, winner.ratio):
            self.won = None
            return False
        why = f"{self.won.text} won on {self.won.origin}, and again here"
        self._bench.deadline.note(f"the search ended early: {why}; --no-cache searches everything")
        tried = {attempt.step.pass_name for attempt in self._board.attempts}
        for planned in (planned for those in self._plan.stages.values() for planned in those):
            if planned.ordered.name not in tried:
                row = self._board.open(step_of(planned.offered), self._bench.original)
                row.settle(StepStatus.SKIPPED, f"not tried: {why}; --no-cache tries it")
        return True

    def keep(self, winner: Measured | None) -> None:
        """Has later runs know what won; a result that only prepares tells them nothing."""
        if self._run is None or winner is None or winner.ratio is None or winner.ratio > CLEARLY_FASTER:
            return
        if all(step.role is not Role.IMPROVE for step in winner.candidate.steps):
            return
        new = self._run.with_result(winner, (self.won or self._run).searched_s)
        same = [one.searched_s for one in self._known if (one.key, one.made_with) == (new.key, new.made_with)]
        self._bench.deadline.note(keep(self._bench.store, replace(new, searched_s=max([new.searched_s, *same]))))

    @property
    def _may_learn(self) -> bool:
        bench = self._bench
        here = bench.elsewhere is None and bench.target.timed and not bench.original.target
        return self.is_on and here and bench.objective.is_latency and not self._plan.forced()

    def _is_whole(self, one: Experience) -> bool:
        """Whether a record is of as much time as this run has, and of the same versions."""
        run = self._run
        return run is not None and one.made_with == run.made_with and _AS_LONG * one.searched_s >= run.searched_s

    def _made(self, one: Experience) -> Candidate | None:
        """The chain of a record on this original, repaired if need be; None if a step of it does not hold here."""
        plan = {planned.ordered.name: planned for those in self._plan.stages.values() for planned in those}
        candidate = self._bench.original
        for step in one.chain:
            planned = plan.get(step.name)
            if planned is None or self._time.is_up:
                return None
            try:
                options = to_wire(parse_options(planned.pass_class, step.options))
            except OptimError:  # another version of the pass had it
                return None
            longer = self._longer(candidate, planned, options, one)
            if longer is None:
                return None
            candidate = longer
        return candidate

    def _longer(
        self, parent: Candidate, planned: Planned, options: dict[str, object], one: Experience
    ) -> Candidate | None:
        attempt = self._board.open(step_of(planned.offered, options), parent)
        attempt.notes = (f"tried first, because it won on {one.origin}",)
        trial = Trial(parent, planned.offered, attempt.step.options)
        tried = self._bench.try_one(trial, self._time.for_candidate())
        made = self._expander.judge(parent, attempt, tried)
        if made is None and self._expander.repairs.is_near(attempt, tried):
            made = self._expander.repairs.repair(Near(planned, parent, attempt, tried))
        return made


def _is_as_fast(item: Measured, one: Experience, ratio: float | None) -> bool:
    """Whether a chain is clearly faster than the original, and not clearly slower than where it won."""
    if item.ratio is None or ratio is None:
        return False
    return item.ratio <= CLEARLY_FASTER and CLEARLY_FASTER * ratio <= one.ratio
