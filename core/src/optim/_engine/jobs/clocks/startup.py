"""Goal ``startup``: from opening a model to its first answer, in a process that has opened it before."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

from optim._engine.jobs.clocks.goal_clock import Figure, GoalClock, Subject, Timer


@dataclass(frozen=True, slots=True)
class StartupClock(GoalClock):
    """Opens the model anew in every round."""

    kind: Literal["startup"] = "startup"

    def start(self, subject: Subject) -> Timer:
        """Nothing has to be looked at before."""
        return _Startup(subject)


class _Startup(Timer):
    def __init__(self, subject: Subject) -> None:
        self._subject = subject

    def round(self) -> Figure:
        """Opening it, and its first answer."""
        one = self._subject
        started = time.perf_counter()
        with one.backend.open(one.model, one.target) as session:
            session.run(one.feeds[0])
            return Figure(time.perf_counter() - started)
