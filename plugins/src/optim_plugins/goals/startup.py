"""Goal ``startup``: from opening a model to its first answer, in a process that has opened it before."""

from __future__ import annotations

import time
from dataclasses import dataclass

from optim.goal import Figure, Goal, GoalClock, GoalRequest, Subject, Timer, Words


class StartUpGoal(Goal):
    """How soon the first answer is there."""

    name = "startup"
    summary = "time from opening the model to its first answer"
    words = Words("start-up ratio", "starts {} times faster", "starts {} times slower", "starts as fast as before")

    def clock(self, asked: GoalRequest) -> StartupClock:
        """It opens the model anew in every round."""
        return StartupClock()

    def expected(self, calls: float, start_s: float | None, original_start_s: float | None) -> float | None:
        """A start is an opening and a first call, which every lane does before its race."""
        return start_s / original_start_s if start_s is not None and original_start_s else None


@dataclass(frozen=True, slots=True)
class StartupClock(GoalClock):
    """Opens the model anew in every round."""

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
