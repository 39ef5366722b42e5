"""What becomes of first guesses that are fast and beyond the budget: what else their pass proposes, then a repair.

A proposal is applied and compared once, a repair many times; and what keeps more of its accuracy by itself leaves less
to repair. So the other proposals come first, and of what is still beyond the budget the nearest is repaired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from optim._engine.jobs.offer import Proposal
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.expand import Expander
from optim._engine.search.explore.promise import Promises
from optim._engine.search.explore.repairs import Near, after_repair, per_evaluation
from optim._engine.search.explore.rest import OUT_OF_TIME
from optim._engine.search.plan import Planned
from optim._engine.search.rows import step_of
from optim._engine.search.state import Attempt, Candidate, Trial
from optim._engine.search.taste import CLEARLY_FASTER
from optim._engine.search.workbench import Tried, Workbench

_REPAIRED = 2
"""So many are repaired at once: the stages repair what else is near."""

_OTHERS = 3
"""Other proposals of a pass that are tried: with more they cost what a repair costs."""

_UNEVEN = 0.8
"""Of the ratio that a repair is expected to leave: a few nodes may err most. Static 8 bits of a BERT-base at 3.5 times
what was allowed took 27 s, found nothing, and could not have had half of its gain; 0.51 held already."""


@dataclass(frozen=True, slots=True)
class Look(Near):
    """A guess that ran, with the chain that it made, whether that holds, and what else its pass proposes."""

    candidate: Candidate
    holds: bool
    others: tuple[Proposal, ...] = ()


class FirstRepairs:
    """Finds what holds in place of guesses that do not.

    Args:
        bench: of the run.
        expander: tries passes, and repairs.
        board: has a row for each.
        time: of the search.
    """

    def __init__(self, bench: Workbench, expander: Expander, board: Board, time: Deadline) -> None:
        self._bench = bench
        self._expander = expander
        self._board = board
        self._time = time
        self._promises: Promises = expander.promises

    def look(
        self, planned: Planned, parent: Candidate, attempt: Attempt, tried: Tried, others: Sequence[Proposal] = ()
    ) -> Look | None:
        """Returns what came of a guess; None where it is wrong, or too far from the budget to be repaired."""
        candidate = self._expander.judge(parent, attempt, tried)
        if candidate is not None:
            return Look(planned, parent, attempt, tried, candidate, holds=True)
        if not self._expander.repairs.is_near(attempt, tried) or tried.answer is None:
            return None
        made = tried.answer.result
        beyond = parent.after(attempt.step, made.model, tried.answer.size_bytes, made.interface)
        return Look(planned, parent, attempt, tried, beyond, holds=False, others=tuple(others[:_OTHERS]))

    def repaired(self, found: Sequence[Look], ratio: Callable[[Look], float], start: float) -> list[Candidate]:
        """Returns what holds in place of guesses that are faster than anything that holds, the best per second first.

        Args:
            found: all looks.
            ratio: of one, measured or hoped.
            start: that of the original.
        """
        held = min((ratio(one) for one in found if one.holds), default=start)
        broken = sorted((one for one in found if not one.holds), key=lambda one: -self._per_second(one, ratio(one)))
        results: list[Candidate] = []
        for place, one in enumerate(broken):
            if ratio(one) >= min(held, CLEARLY_FASTER * start):
                continue
            if place >= _REPAIRED:
                self.leave(one)
                continue
            others = self._otherwise(one)
            for other in others:
                if other.holds:
                    held = min(held, self._note(other.candidate, self._hoped(one, other.candidate, ratio)))
                    results.append(other.candidate)
            if held <= ratio(one):
                continue
            near = self._nearest([one, *(other for other in others if not other.holds)])
            if results and self._is_too_far(near, ratio(one), held):
                self.leave(near)
                continue
            with self._time.lending() if held >= CLEARLY_FASTER * start else nullcontext():  # nothing to prove yet
                new = self._expander.repairs.repair(near)
            if new is not None:
                held = min(held, self._note(new, self._hoped(one, new, ratio)))
                results.append(new)
        return results

    def _per_second(self, one: Look, ratio: float) -> float:
        """What one promises per second of a look; how far it is counts where nothing else of its pass may be nearer."""
        limit = math.inf if one.others else self._expander.repairs.aim(one.tried)
        return per_evaluation(one.attempt, ratio, limit)

    def leave(self, one: Look) -> None:
        """Leave it to the stages, and to the time that is left in the end."""
        self._expander.repairs.note_near(one)

    def _is_too_far(self, one: Look, ratio: float, held: float) -> bool:
        """Whether so much must be left in float that little of the gain is left, beside what holds already."""
        drift = one.attempt.drift.relative_error if one.attempt.drift else 0.0
        return _UNEVEN * after_repair(ratio, drift, self._expander.repairs.aim(one.tried)) >= held

    def _otherwise(self, one: Look) -> list[Look]:
        """Tries what a pass proposes beside its first guess, on the same chain."""
        wanted = []
        for proposal in one.others:
            attempt = self._board.open(step_of(one.planned.offered, proposal.options), one.parent)
            self._expander.expect(attempt.step, proposal)
            wanted.append(attempt)
        trials = [Trial(one.parent, one.planned.offered, attempt.step.options) for attempt in wanted]
        self._bench.teller.more(len(trials))
        outcomes = self._bench.try_all(trials, lambda _: self._time.for_candidate())
        looks = []
        for attempt, tried in zip(wanted, outcomes, strict=True):
            if tried is not None:
                looks.append(self.look(one.planned, one.parent, attempt, tried))
            elif attempt.ratio is None:
                attempt.run_out(OUT_OF_TIME)
        return [look for look in looks if look is not None]

    def _nearest(self, looks: Sequence[Look]) -> Look:
        near = self._expander.repairs.closest(looks)
        return next((one for one in looks if one is near), looks[0])

    def _note(self, candidate: Candidate, hoped: float) -> float:
        self._board[candidate].hoped = hoped
        return hoped

    def _hoped(self, one: Look, found: Candidate, ratio: Callable[[Look], float]) -> float:
        """The ratio to expect of what is there in place of a look, by that of the look."""
        gain = self._promises.gain
        return ratio(one) * math.exp(gain(one.attempt.step) - gain(found.steps[-1]))
