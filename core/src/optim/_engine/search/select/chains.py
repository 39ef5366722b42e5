"""Chains of known steps: applied to another candidate, or with fewer steps.

A shorter chain does without settings that change nothing, and without steps that have not shown their worth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from optim._engine.search.board import Applied, Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.state import Candidate, Measured, Step, StepStatus
from optim.goal import FASTER
from optim.passes import Role

_OF_LOAD = (
    "undecided: other programs used the machine, so the gain of a session setting is uncertain; require it with --with"
)


class Chains:
    """Applies steps that were tried before, and tells what a chain could do without.

    Args:
        try_step: tries one on a candidate, in so many seconds: :meth:`Workbench.try_step`.

    Attributes:
        idle: tells what changes nothing.
    """

    def __init__(
        self, try_step: Callable[[Step, Candidate, float], Applied], board: Board, time: Deadline, idle: IdleSettings
    ) -> None:
        self._try_step = try_step
        self._board = board
        self._time = time
        self.idle = idle

    def apply(self, steps: Sequence[Step], on: Candidate | None = None) -> Candidate | None:
        """Applies steps to ``on``, or to the original; None where one changes nothing or fails there."""
        candidate = on or self._board.original
        for step in steps:
            attempt = self._board.open(step, candidate)
            tried = self._try_step(step, candidate, self._time.for_reapplying)
            longer = self._board.applied(attempt, candidate, tried)
            if longer is None:
                return None
            candidate = longer
        return candidate

    def was_asked_for(self, step: Step) -> bool:
        """Whether the user named this pass, or the target requires it."""
        return step.pass_name in self._board.required

    def only_makes_way(self, candidate: Candidate) -> bool:
        """Whether a chain does no more than make way for something that is not there; True for the user's original.

        The original on another target than the baseline's is something: no step of it only makes way.
        """
        if not candidate.steps:
            return candidate.is_original
        return all(step.role is Role.ENABLE and not self.was_asked_for(step) for step in candidate.steps)

    def only_set(self, steps: Sequence[Step]) -> bool:
        """Whether these steps do no more than set how the runtime runs a model, unasked."""
        return bool(steps) and all(step.session_only and not self.was_asked_for(step) for step in steps)

    def changes_nothing(self, candidate: Candidate) -> bool:
        """Whether the runtime makes of it what it makes of the original: that is not faster, whatever a clock says.

        Its row says so. What was asked for is a change, and so is another runtime than the baseline's.
        """
        if candidate.target or any(map(self.was_asked_for, candidate.steps)):
            return False
        reason = self.idle.reasons(self._board.original, [candidate], of_winner=True).get(candidate.digest)
        attempt = self._board.find(candidate)
        if reason is not None and attempt is not None:
            attempt.settle(StepStatus.DROPPED, reason)
        return reason is not None

    def without_gains_of_load(self, item: Measured) -> Candidate | None:
        """Takes off settings that leave the runtime's graph as it is, where other programs used the machine.

        Beside others it pays not to spin, or to take memory anew; without them it may pay nothing: such a gain is
        undecided, and rows say so.

        Returns:
            The rest of the chain, which may be the original; None where nothing is to be taken off.
        """
        found = item.candidate
        while item.is_disturbed and found.steps and self.only_set(found.steps[-1:]):
            plain = self.apply(found.steps[:-1])
            if plain is None or not self.idle.same_graph(plain, found):
                break
            attempt = self._board.find(found)
            if attempt is not None:
                attempt.settle(StepStatus.DROPPED, _OF_LOAD)
            found = plain
        return found if found is not item.candidate else None

    def only_what_was_asked_for(self, candidate: Candidate) -> list[Candidate]:
        """Returns the candidate with only what the user asked for, to be delivered where nothing else helps.

        Nothing where an improving pass was asked for: without that pass the chain is not what the user wants.
        """
        asked = [step for step in candidate.steps if self.was_asked_for(step)]
        if any(step.role is Role.IMPROVE for step in asked):
            return []
        found = self.apply(asked) if asked and len(asked) < len(candidate.steps) else None
        return [found] if found is not None else []

    def without_doubtful(self, candidate: Candidate) -> list[Candidate]:
        """Takes each step out that has not shown its worth, as far as the steps after it still apply.

        A step that can go stays out of the shorter chains that follow, because nothing needs it.
        """
        found, steps = [], list(candidate.steps)
        for place, step in reversed(list(enumerate(candidate.steps))):
            if self._time.is_up:
                break
            doubtful = self._is_doubtful(candidate.steps[: place + 1]) and not self.was_asked_for(step)
            if len(steps) > 1 and doubtful:
                shorter = self.apply([other for other in steps if other is not step])
                if shorter is not None:
                    found.append(shorter)
                    steps = list(shorter.steps) if step.role is Role.ENABLE else steps
        return found

    def _is_doubtful(self, steps: tuple[Step, ...]) -> bool:
        """Whether the last of these steps only makes way, or was no faster than the chain without it.

        Settings must have been faster beyond the noise: they are the best of several, and noise is best in one of them.
        """
        if steps[-1].role is Role.ENABLE:
            return True
        attempt, sets = self._board.find_chain(steps), steps[-1].session_only
        if attempt is None or attempt.timing is None or attempt.parent_ratio is None:
            return sets
        found = attempt.timing.high if sets else attempt.timing.value
        return found >= attempt.parent_ratio * FASTER
