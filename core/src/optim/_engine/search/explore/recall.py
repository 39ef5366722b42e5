"""Chains that won on near models in earlier runs: they are tried before anything else is.

A chain is applied to the original step by step, compared on all samples, and timed for a few rounds. Steps that change
nothing here are left out, and a chain that is beyond the budget is repaired. If the chain does here what it did there,
the search need find nothing else: it goes to the proof, and ends the run if the proof says the same. In every other
case the search begins as if nothing had been tried; what holds is on the board. So a wrong record costs the seconds of
its candidates: a fifth of those of the run at most.

A record of a search with less time, of other versions, or beside other programs has its chain tried, and ends no
search. A chain without a pass that must hold is not tried.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from optim._engine.jobs.offer import Proposal
from optim._engine.search.deadline import LATER
from optim._engine.search.experience import Experience, WonStep, keep, nearest, read, with_names, with_places
from optim._engine.search.explore.expand import Expander
from optim._engine.search.measure.clock import LOOK_S, Clock
from optim._engine.search.plan import Plan
from optim._engine.search.rows import step_of
from optim._engine.search.state import ITSELF, Candidate, Measured, StepStatus
from optim._engine.search.taste import DIFFER
from optim._engine.store import Store
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.options import parse_options
from optim.passes import Role

_MOST = 2
"""Chains that are tried: a third one won on the nearest models seldomer than what the search looks at first."""

_SHARE = 0.2
"""Of the seconds of the run, for chains of records: all that records that lie can cost."""


class Recall:
    """The experience of earlier runs on this machine, for one search.

    Args:
        store: has the records.
        say: tells whoever waits what is tried.
        plan: passes of the run.
        expander: has steps tried.

    Attributes:
        is_on: whether records are read and written; tests of searches go without.
        won: the record whose chain ends the search; None: none does.
    """

    is_on: ClassVar[bool] = True

    def __init__(self, store: Store, say: Callable[[str], None], plan: Plan, expander: Expander, clock: Clock) -> None:
        self._store = store
        self._say = say
        self._plan = plan
        self._expander = expander
        self._clock = clock
        self._board = clock.board
        self._time = clock.time
        self.won: Experience | None = None
        self._run: Experience | None = None
        self._known: list[Experience] = []

    def run(self, run: Experience, targets: int = 1, *, fresh: bool = False) -> list[Measured]:
        """Returns the chain that won again, to be proven; nothing if the search is to begin, or nothing is read."""
        self._run = run
        if fresh:
            return []
        self._known, damaged = read(self._store)
        self._time.note(damaged)
        required = self._board.required
        near = nearest(self._known, self._run)
        chosen = [one for one in near if required <= {step.name for step in one.chain}][:_MOST]
        if not chosen:
            return []
        self._say(f"trying what won on {chosen[0].model}")
        with self._time.leaving(1 - self._share(targets)):
            for one in chosen:
                item = self._looked_at(one)
                if item is None or not required <= {step.pass_name for step in item.candidate.steps}:
                    continue
                if one.may_end(self._run) and self._is_met(one, item, self._at_best(item)):
                    self.won = one
                    return [item]
                break  # times are those of the architecture: the next record says no more
        self._go_on()
        return []

    def stands(self, winner: Measured | None) -> bool:
        """Whether the proof of the chain says what its record said: then nothing else is tried, and rows say so."""
        if self.won is None:
            return False
        if winner is None or not self._is_met(self.won, winner, self._to_original(winner)):
            self.won = None
            self._go_on()
            return False
        self._time.note(f"the search ended early: {self.why}; --no-cache searches everything")
        self.skip(self.why)
        return True

    def _is_met(self, one: Experience, item: Measured, ratio: float | None) -> bool:
        """Whether a chain does here what its record says; ``ratio`` is the goal's figure of it to the original's."""
        assert self._run is not None
        return one.is_met_by(self._run.architecture.changed_by(item.candidate.model.path), ratio)

    def _share(self, targets: int) -> float:
        """The share of the seconds for candidates that chains of records may take, 0..1."""
        seconds = _SHARE * self._time.announced_s / targets
        return min(1.0, seconds / self._time.before(LATER)) if self._time.before(LATER) > 0 else 0.0

    def _go_on(self) -> None:
        """Has first looks take their share of the seconds that are left."""
        self._time.explore(self._time.to_explore)

    @property
    def why(self) -> str:
        """The reason of passes and targets that are not tried; empty if the search does not end early."""
        return f"{self.won.text} won on {self.won.origin}, and again here" if self.won is not None else ""

    def skip(self, why: str) -> None:
        """Has the rows of all passes that were not tried say why."""
        for row in self._board.rows_of_untried(self._plan.passes):
            row.settle(StepStatus.SKIPPED, f"not tried: {why}; --no-cache tries it")

    def keep(self, winner: Measured | None) -> None:
        """Has later runs know what won; a result that only prepares tells them nothing."""
        if self._run is None or winner is None:
            return
        ratio = self._to_original(winner)
        if ratio is None or DIFFER * ratio > 1:
            return
        found = winner.candidate
        if all(step.role is not Role.IMPROVE for step in found.steps):
            return
        drift, changed = found.drift.relative_error, self._run.architecture.changed_by(found.model.path)
        new = replace(self._run, chain=self._chain(found), ratio=ratio, drift=drift, changed=changed)
        new = replace(new, is_quiet=not winner.is_disturbed)
        same = [one for one in self._known if (one.key, one.made_with) == (new.key, new.made_with)]
        new = new.after_search_of([self.won or new, *same])
        self._time.note(keep(self._store, new))

    def _chain(self, candidate: Candidate) -> tuple[WonStep, ...]:
        """The steps of a candidate, with the places of the nodes that options name."""
        chain = []
        for place, step in enumerate(candidate.steps, 1):
            row = self._board.find_chain(candidate.steps[:place])
            models = self._board.pair(row) if row is not None else None
            chain.append(WonStep(step.pass_name, with_places(step.options, models[0].path if models else None)))
        return tuple(chain)

    def _looked_at(self, one: Experience) -> Measured | None:
        """The chain of a record here, after a first look at it on all samples; None if it does not hold.

        If it breaks the budget on all samples only, it is repaired: a proof would find the same, and later.
        """
        candidate = self._made(one)
        found = self._look(candidate)
        if candidate is None or (broken := self._board[candidate].broken) is None:
            return found
        for place, step in enumerate(candidate.steps, 1):
            row = self._board.find_chain(candidate.steps[:place])
            if step.lossy and row is not None:  # what follows it only sets how the model is opened
                row.drop(self._board[candidate].objection, "on all samples: ")
        return self._look(self._expander.repairs.on_all_samples(broken, self._time.before(LATER)))

    def _look(self, candidate: Candidate | None) -> Measured | None:
        """The chain after a few rounds; None if there is none, it breaks the budget on all samples, or time is over."""
        if candidate is None or candidate.is_original or self._time.before(LATER) <= 0:
            return None
        if self._board.objective.is_size:  # no race tells which is smaller
            items = [Measured(candidate)]
        else:
            items = self._clock.first_look([candidate], LOOK_S, on_all_samples=True)
            self._board.note_objections([candidate])
        self._board.explored(items)
        for item in items:
            self._board.timed(item, None)
        return items[0] if items else None

    def _at_best(self, item: Measured) -> float | None:
        """The goal's figure to the original's that a first look allows."""
        if self._board.objective.is_latency:
            return item.lane.ratio.low if item.lane.ratio is not None else None
        hoped = self._board[item.candidate].hoped
        return hoped if hoped is not None else self._to_original(item)

    def _to_original(self, item: Measured) -> float | None:
        """The goal's figure to the original's; None if one of them is not known."""
        found, before = self._board.figure(item), self._board.figure(Measured(self._board.original, ITSELF))
        return found / before if 0 < before < math.inf and found < math.inf else None

    def _made(self, one: Experience) -> Candidate | None:
        """The chain of a record on this original, repaired if need be; None if a step of it does not hold here."""
        plan = {planned.name: planned for planned in self._plan.passes}
        candidate = self._board.original
        for step in one.chain:
            planned, seconds = plan.get(step.name), min(self._time.timeout_s, self._time.before(LATER))
            if planned is None or seconds <= 0:
                return None
            try:
                named = with_names(step.options, candidate.model.path)
                options = to_wire(parse_options(planned.pass_class, named))
            except OptimError:  # another version of the pass had it
                return None
            tuned: Candidate | None = None
            if planned.pass_class.session_only:
                # the pass offers the settings that change something here, and no job makes a model of them
                wanted = step_of(planned.offered, options)
                offered = self._expander.session_variants(candidate, [planned], sys.maxsize)
                tuned = next((found for found in offered if found.steps[-1].key == wanted.key), None)
                if tuned is None:
                    continue
            guess = self._expander.guess(planned, candidate, [Proposal(options)])
            guess.attempt.notes = guess.attempt.notes or (f"tried first, because it won on {one.origin}",)
            longer = tuned or self._expander.step(guess, seconds)
            if longer is None and not guess.attempt.unchanged:
                return None
            candidate = longer or candidate
        return candidate
