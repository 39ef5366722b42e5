"""Repairs while exploring: what is beyond the budget by little leaves some nodes in float, and is tried again.

What was found for a step on one chain is tried first on the next: nodes err there about as they do here. What was not
repaired for want of time is remembered, for where there is more of it in the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from optim._engine.repair.found import REPAIRABLE
from optim._engine.search.board import Board
from optim._engine.search.deadline import LEAST_REPAIR_S, Deadline
from optim._engine.search.explore.promise import Promises
from optim._engine.search.plan import Planned
from optim._engine.search.rows import chain_key, chain_of, step_of
from optim._engine.search.select.chains import Chains
from optim._engine.search.select.repair import RepairedOptions, Repairer
from optim._engine.search.state import Attempt, Candidate, ChainKey, Step, StepKey, Trial
from optim._engine.search.workbench import Tried, Workbench

_LEAST_S, _LEAST_RATIO = 0.1, 0.01
"""Of an evaluation, and of what a quick look finds: less is not told apart."""


_NO_NEARER = 0.9
"""Of a drift: a tenth less is not worth a repair."""


@dataclass(frozen=True, slots=True)
class Near:
    """A candidate that was tried and may be repaired: the pass, the chain before it, its row, and what the job said."""

    planned: Planned
    parent: Candidate
    attempt: Attempt
    tried: Tried


_FAR = f"not repaired: the drift is more than {REPAIRABLE:g} times the budget, and no search time was left"


class Repairs:
    """Repairs candidates of one search.

    Args:
        bench: of the run.
        board: gets a row for each that is tried.
        time: for repairs.
        judge: returns the chain with a step if it holds, as :meth:`Expander.judge` does.
        promises: learn what a repaired step may gain.

    Attributes:
        near: what may be repaired with more time.
        far: what is far beyond the budget.
        rough: by their chain, what was repaired in too little time, as it was before.
    """

    def __init__(
        self,
        bench: Workbench,
        board: Board,
        time: Deadline,
        judge: Callable[[Candidate, Attempt, Tried], Candidate | None],
        promises: Promises,
    ) -> None:
        self._bench = bench
        self._board = board
        self._time = time
        self._judge = judge
        self._promises = promises
        self._repairer = Repairer(bench, board, time)
        self._repaired_as: dict[StepKey, RepairedOptions] = {}
        self._found: dict[tuple[str, StepKey], Candidate | None] = {}
        self.near: dict[tuple[str, StepKey], Near] = {}
        self.far: dict[tuple[str, StepKey], Near] = {}
        self.rough: dict[ChainKey, Near] = {}
        self._chains = Chains(bench, board, time)

    def closest(self, tried: Sequence[Near]) -> Near | None:
        """Returns the closest of the candidates that broke the budget and can be repaired."""
        near = [one for one in tried if self.is_near(one.attempt, one.tried)]
        return min(near, key=lambda one: one.attempt.drift.relative_error if one.attempt.drift else 0.0, default=None)

    def known_for(self, step: Step) -> dict[str, Any] | None:
        """Returns the options with which a step held on another chain; None where nobody knows."""
        known = self._repaired_as.get(step.key)
        return known.options if known is not None else None

    def aim(self, tried: Tried) -> float:
        """Returns the drift that a repair of a candidate aims at."""
        return self._repairer.aim(tried)

    def is_near(self, attempt: Attempt, tried: Tried) -> bool:
        """Whether a candidate is beyond the budget by so little that it may be repaired."""
        return "keep" in attempt.step.options and self._repairer.is_near(tried)

    def repair(self, one: Near) -> Candidate | None:
        """Returns a candidate beyond the budget with nodes left in float, if it holds then; once for each."""
        key = (one.parent.digest, one.attempt.step.key)
        if key not in self._found:
            self._found[key] = self._repair(one)
            self.note_near(one)
        if self._found[key] is not None:
            self.near.pop(key, None)
        return self._found[key]

    def note_near(self, one: Near) -> None:
        """Note what may be repaired with more time."""
        self.near[one.parent.digest, one.attempt.step.key] = one

    def note_far(self, tried: Sequence[Near]) -> None:
        """Note what is far beyond the budget: its repair seldom gains anything, and has only time that nobody needs."""
        for one in tried:
            if "keep" in one.attempt.step.options and self._repairer.is_far(one.tried):
                one.attempt.unrepaired = _FAR
                self.far[one.parent.digest, one.attempt.step.key] = one

    def repair_again(self, one: Near) -> Candidate | None:
        """Returns what a repair finds now that has more time than it had before."""
        self._found.pop((one.parent.digest, one.attempt.step.key), None)
        one.attempt.unrepaired = ""
        return self.repair(one)

    def repair_on(self, is_wanted: Callable[[Near], bool]) -> Candidate | None:
        """Returns what a repair finds in all the time but the least proof, of what was smallest before it first.

        What is far beyond the budget comes last.
        """
        with self._time.lending():
            for one in (*sorted(self.near.values(), key=made_bytes), *sorted(self.far.values(), key=made_bytes)):
                if self._time.left_for_repairs < LEAST_REPAIR_S:
                    break
                if is_wanted(one) and (found := self.repair_again(one)) is not None:
                    return found
        return None

    def refine(self, candidate: Candidate) -> Candidate | None:
        """Repairs the step of a chain again that was repaired in too little time, and applies the rest anew.

        Returns:
            What holds then; None where nothing was repaired so, or nothing else was found now.
        """
        steps = candidate.steps
        for place in range(len(steps), 0, -1):
            rough = self.rough.pop(chain_of(candidate.target, steps[:place]), None)
            if rough is not None:
                found = self.repair_again(rough)
                if found is None or found.steps == steps[:place]:
                    rough.attempt.unrepaired = ""  # it was repaired, if not as well as it might be
                    return None
                return self._chains.apply(steps[place:], found)
        return None

    def nearer(self, candidate: Candidate, fits: Callable[[Candidate], bool]) -> list[Candidate]:
        """Returns what repairs make of a candidate that fits and drifts less, each less than the one before it.

        The drift is halved as long as the result fits. After one that does not, the next repair aims between the two.
        """
        found: list[Candidate] = []
        drift, beyond = candidate.drift.relative_error, 0.0
        while self._time.left_for_repairs >= LEAST_REPAIR_S:
            aim = math.sqrt(beyond * drift) if beyond else drift / 2
            if aim >= _NO_NEARER * drift:
                break
            new = self._repairer.nearer(candidate, aim)
            if new is not None and new.drift.relative_error < drift and fits(new):
                found.append(new)
                drift = new.drift.relative_error
            else:
                beyond = aim
        return found

    def _repair(self, one: Near) -> Candidate | None:
        """What a repair finds that holds; while it is beyond what the gate accepts, the next one aims at less."""
        limit: float | None = self._repairer.aim(one.tried)
        while limit is not None:
            new, again = self._repair_to(limit, one)
            if new is not None or again is None:
                return new
            limit = self._repairer.aim_after(again)
        return None

    def _repair_to(self, limit: float, one: Near) -> tuple[Candidate | None, Tried | None]:
        """Tries the candidate with as many nodes left in float as a drift takes; returns it if it holds.

        What was found in enough time for the same step on another chain is tried first: nodes err there about as here.
        """
        step = one.attempt.step
        known = self._repaired_as.get(step.key)
        if known is not None and not known.rough and known.limit <= limit:
            new, tried = self._try_repaired(one, known, (as_elsewhere(one.planned),))
            if new is not None:
                return new, tried
        trial = Trial(one.parent, one.planned.offered, step.options)
        found = self._repairer.options(trial, one.attempt, one.tried, limit)
        if found is None:
            return None, None
        self._repaired_as[step.key] = replace(found, limit=limit)
        new, tried = self._try_repaired(one, found)
        if new is not None and found.rough:
            self.rough[chain_key(new)] = one
        return new, tried

    def _try_repaired(
        self, one: Near, found: RepairedOptions, notes: tuple[str, ...] = ()
    ) -> tuple[Candidate | None, Tried]:
        parent, planned, broken = one.parent, one.planned, one.attempt
        again = self._board.open(step_of(planned.offered, found.options), parent)
        again.notes = notes or again.notes
        self._promises.note_repaired(broken.step, again.step, found.lost)
        trial = Trial(parent, planned.offered, found.options)
        named_s = self._time.for_candidate(named=True) if planned.forced else 0.0
        tried = self._bench.try_one(trial, max(named_s, self._time.for_repaired(broken.seconds)))
        return self._judge(parent, again, tried), tried


def made_bytes(one: Near) -> int:
    """The size of what a pass made, before it was repaired: a repair leaves no less."""
    return one.tried.answer.size_bytes if one.tried.answer is not None else 0


def after_repair(ratio: float, drift: float, limit: float) -> float:
    """The ratio that a repair is expected to leave, where nobody knows how the drift spreads over the nodes.

    As much of the gain is left as the limit is of the drift. Where all nodes err alike it is less, the square of that
    with floats and about this with a precision between; where a few err most, it is more.
    """
    left = min(1.0, limit / drift) if drift > 0 else 1.0
    return ratio + (1.0 - left) * max(0.0, 1.0 - ratio)


def per_evaluation(attempt: Attempt, ratio: float, limit: float = math.inf) -> float:
    """What a repair down to a limit promises for each second of an evaluation: the pass is applied in each."""
    drift = attempt.drift.relative_error if attempt.drift else 0.0
    hoped = after_repair(max(ratio, _LEAST_RATIO), drift, limit)
    return -math.log(hoped) / max(attempt.seconds, _LEAST_S)


def as_elsewhere(planned: Planned) -> str:
    """The note of a row whose options were found on another chain."""
    return f"what a repair on another chain leaves {planned.pass_class.kept}"
