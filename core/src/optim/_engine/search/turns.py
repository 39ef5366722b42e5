"""Turns at the machine's clock: one race at a time, whoever runs it. Waiting for a turn is no search time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from optim._engine.locks import Holder, LockBusyError, acquire
from optim.errors import ExitStatus, OptimError

CLOCK = "clock"
MOST_WAIT_S = 900.0
"""For one turn. The longest race of a run takes a minute or two; who holds it for longer has most likely hung."""


class Turns:
    """The turns of one run.

    Args:
        what: the run does, for others who wait for it.
        say: told who is waited for.
        now: seconds of a clock that never goes back.
        elsewhere: whether another machine's clock is used, which is held there.

    Attributes:
        most_wait_s: for one turn.
    """

    def __init__(
        self,
        what: str,
        say: Callable[[str], None],
        *,
        now: Callable[[], float] = time.monotonic,
        elsewhere: bool = False,
    ) -> None:
        self.most_wait_s = MOST_WAIT_S
        self._what = what
        self._say = say
        self._now = now
        self._elsewhere = elsewhere
        self._waited_s = 0.0
        self._told = False

    def now(self) -> float:
        """Seconds of a clock that stands still while this run waits for its turn."""
        return self._now() - self._waited_s

    def waited(self, seconds: float) -> None:
        """Note that this run has waited for another machine, or for the clock there."""
        self._waited_s += seconds

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the clock.

        Raises:
            OptimError[clock-in-use]: others held it for too long.
        """
        if self._elsewhere:
            yield
            return
        asked = self._now()
        try:
            lock = acquire(CLOCK, self._what, wait_s=self.most_wait_s, on_wait=self._tell)
        except LockBusyError as error:
            raise OptimError(
                "clock-in-use",
                "nothing can be timed here now",
                f"{error.holder} has been timing something for {self.most_wait_s:.0f} s, and others would disturb it",
                "run it again when that has ended: what was found so far is kept",
                status=ExitStatus.USAGE,
            ) from error
        finally:
            self._waited_s += self._now() - asked
        if self._told:
            self._told = False
            self._say("timing, after a wait")
        try:
            yield
        finally:
            lock.release()

    def _tell(self, holder: Holder) -> None:
        self._told = True
        self._say(f"waiting for {holder}: only one times something at once")
