"""A goal's clock in a lane: what a plugin's clock does wrong is named with its plugin."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from optim.errors import OptimError, describe_exception
from optim.goal import Figure, GoalClock, Subject, Timer
from optim.jobs.doing import PluginCall, calling
from optim.jobs.wire import from_wire, to_wire


@dataclass(frozen=True, slots=True)
class LaneClock:
    """A goal's clock on its way to a lane.

    Attributes:
        goal: whose clock it is.
        path: ``package.module:Class`` of the clock.
        settings: its fields, as JSON values.
        release: the distribution that brings it, with its version; empty: it is optim's own.
    """

    goal: str
    path: str
    settings: dict[str, Any]
    release: str = ""

    @classmethod
    def of(cls, goal: str, clock: GoalClock, release: str = "") -> LaneClock:
        """Pack a clock."""
        kind = type(clock)
        return cls(goal, f"{kind.__module__}:{kind.__qualname__}", to_wire(clock), release)

    def start(self, subject: Subject) -> Timer:
        """The clock's timer.

        Raises:
            OptimError[goal-failed]: the plugin's clock raised; an OptimError of its own goes through.
        """
        module, _, name = self.path.partition(":")
        with self._calling():
            clock: GoalClock = from_wire(getattr(importlib.import_module(module), name), self.settings)
            return clock.start(subject)

    def round(self, timer: Timer) -> Figure:
        """One round of the timer.

        Raises:
            OptimError[goal-failed]: it raised, or returned what is no figure.
        """
        with self._calling():
            found = timer.round()
        seconds = found.seconds if isinstance(found, Figure) else found
        if isinstance(found, Figure) and isinstance(seconds, int | float) and 0 < seconds < math.inf:
            return found
        raise self._failed(f"its clock returned {seconds!r}, and not a Figure of some seconds")

    @contextmanager
    def _calling(self) -> Iterator[None]:
        try:
            with calling(PluginCall(f"the clock of goal {self.goal} was running", self.release)):
                yield
        except OptimError:
            raise
        except Exception as error:
            if not self.release:
                raise
            raise self._failed(f"its clock raised {describe_exception(error)}") from error

    def _failed(self, cause: str) -> OptimError:
        return OptimError(
            "goal-failed",
            f"the clock of goal {self.goal} does not work on a model",
            cause,
            "time single runs: --goal latency; if it fails on every model, report this to its plugin",
            self.release,
        )
