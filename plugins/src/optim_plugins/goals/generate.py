"""Goal ``generate``: how long a decoder takes for an answer, its first token and each one after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optim.errors import OptimError
from optim.goal import Figure, Goal, GoalClock, GoalRequest, Subject, Timer, Words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optim.model import Model
    from optim_plugins.goals.decoders.timing import WorkloadTimer


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
        if model is not None:
            from optim_plugins.goals.decoders.known import require_generating

            require_generating(model)
        context = facts.get("context")
        if facts.get("kind") == "decoder" and isinstance(context, int) and asked.prompt + asked.new > context:
            raise OptimError.usage(
                "bad-workload",
                f"--generate cannot be 'prompt={asked.prompt},new={asked.new}'",
                f"these are {asked.prompt + asked.new} tokens, and the model was made for {context}",
                f"--generate prompt={max(1, context * 3 // 4)},new={max(1, context // 4)}",
            )


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
        from optim.engine.goals import bindable
        from optim_plugins.goals.decoders.decoder import session_interface
        from optim_plugins.goals.decoders.known import require_decoder
        from optim_plugins.goals.decoders.timing import WorkloadTimer

        session = bindable(subject.session, subject.model)
        interface = session_interface(session)
        require_decoder(interface)
        return _Generate(WorkloadTimer(session, interface, GoalRequest(self.prompt, self.new)))


class _Generate(Timer):
    def __init__(self, timer: WorkloadTimer) -> None:
        self._timer = timer
        self._timer.round()  # the first run of a length finds its memory

    def round(self) -> Figure:
        """A prompt, and tokens at some depths."""
        found = self._timer.round()
        return Figure(found.seconds, generation=found)
