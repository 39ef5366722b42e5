"""Goal ``generate``: how long a decoder takes for an answer, its first token and each one after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.goal import Figure, Goal, GoalClock, GoalRequest, Subject, Timer, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.engine.goals import WorkloadTimer
    from optim.model import Model


class GenerateGoal(Goal):
    """How long a decoder takes for an answer."""

    name = "generate"
    summary = "time of a whole answer of a decoder"
    words = Words("answer ratio", "answers {} times faster", "answers {} times slower", "answers as fast as before")
    takes = ("prompt", "new")
    long_rounds = True

    def clock(self, asked: GoalRequest) -> GenerateClock:
        """It runs whole steps with their past."""
        return GenerateClock(asked.prompt, asked.new)

    def require(self, asked: GoalRequest, facts: Mapping[str, Any], model: Model | None) -> None:
        """Refuse a model without a past, and answers that go beyond its context.

        Raises:
            OptimError[not-a-decoder]: the model has no past.
            OptimError[bad-workload]: answers of so many tokens go beyond the context of the model.
        """
        from optim.engine.goals import Workload, require_generating

        if model is not None:
            require_generating(model)
        Workload(asked.prompt, asked.new).require_context(facts)


@dataclass(frozen=True, slots=True)
class GenerateClock(GoalClock):
    """Runs whole steps with their past.

    Attributes:
        prompt: tokens of the prompt.
        new: tokens of the answer.
    """

    prompt: int
    new: int

    def start(self, subject: Subject) -> Timer:
        """A session that is bound to the past itself where the runtime lets it.

        Raises:
            OptimError[not-a-decoder]: the model has no past.
        """
        from optim.engine.goals import Workload, WorkloadTimer, bindable, require_decoder, session_interface

        session = bindable(subject.session, subject.model)
        interface = session_interface(session)
        require_decoder(interface)
        return _Generate(WorkloadTimer(session, interface, Workload(self.prompt, self.new)))


class _Generate(Timer):
    def __init__(self, timer: WorkloadTimer) -> None:
        self._timer = timer
        self._timer.round()  # the first run of a length finds its memory

    def round(self) -> Figure:
        """A prompt, and tokens at some depths."""
        found = self._timer.round()
        return Figure(found.seconds, generation=found)
