"""Goal ``generate``: how long a decoder takes for an answer, its first token and each one after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from optim._engine.backends.held_session import HeldSession
from optim._engine.backends.own_session import OwnSession
from optim._engine.generation.decoder import session_interface
from optim._engine.generation.known_decoders import require_decoder
from optim._engine.generation.tensors import AnySession
from optim._engine.generation.timing import WorkloadTimer
from optim._engine.generation.workload import Workload
from optim._engine.jobs.clocks.goal_clock import Figure, GoalClock, Subject, Timer
from optim.backend import Session
from optim.model import Model


@dataclass(frozen=True, slots=True)
class GenerateClock(GoalClock):
    """Runs whole steps with their past.

    Attributes:
        prompt: tokens of the prompt.
        new: tokens of the answer.
    """

    prompt: int
    new: int
    kind: Literal["generate"] = "generate"

    def start(self, subject: Subject) -> Timer:
        """A session that is bound to the past itself where the runtime lets it.

        Raises:
            OptimError[not-a-decoder]: the model has no past.
        """
        session = bindable(subject.session, subject.model)
        interface = session_interface(session)
        require_decoder(interface)
        return _Generate(WorkloadTimer(session, interface, Workload(self.prompt, self.new)))


def bindable(held: Session, model: Model) -> AnySession:
    """The runtime's own session, where memory can be bound to it; else one that is fed arrays."""
    own = held.onnxruntime_session() if isinstance(held, HeldSession) else None
    return own or OwnSession(held, model)


class _Generate(Timer):
    def __init__(self, timer: WorkloadTimer) -> None:
        self._timer = timer
        self._timer.round()  # the first run of a length finds its memory

    def round(self) -> Figure:
        """A prompt, and tokens at some depths."""
        found = self._timer.round()
        return Figure(found.seconds, generation=found)
