"""Turns at the machine's clock: one race at a time, whoever runs it. Waiting for a turn is no search time.

A race that decides asks for quiet, too: other runs begin no job while its rounds go on, for two seconds at most. What
they have begun goes on beside it. A race whose rounds are disturbed goes on for all the time that it may, and that time
is nobody else's: two runs on two cores would keep each other from the clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from optim._engine.locks import POLL_S, LockBusyError, acquire, held_for_s
from optim._engine.search.taste import HANGS_S
from optim.errors import OptimError

CLOCK, QUIET = "clock", "quiet"
QUIET_S = 2.0
"""Forty rounds of a small model take less: where a race is not over by then, its model is large, or other programs
disturb it. With more, runs beside such a program would wait for nothing."""


@contextmanager
def quiet() -> Iterator[None]:
    """Have other runs begin nothing, while what decides is timed; for who has the clock of this machine."""
    try:
        lock = acquire(QUIET, "what decides is timed", wait_s=0.0)
    except LockBusyError:  # another device is timed
        yield
        return
    try:
        yield
    finally:
        lock.release()


class Turns:
    """The turns of one run.

    Args:
        what: the run does, for others who wait for it.
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
        self.most_wait_s = HANGS_S
        self._what = what
        self._say = say
        self._now = now
        self._elsewhere = elsewhere
        self._waited_s = 0.0
        self._waits_since: float | None = None
        self._guard = threading.Lock()
        self._counted_to = 0.0

    def now(self) -> float:
        """Seconds of a clock that stands still while this run waits for its turn, also for who looks meanwhile."""
        since = self._waits_since
        return (self._now() if since is None else since) - self._waited_s

    def waited(self, seconds: float) -> None:
        """Note that this run has waited for another machine, or for the clock there."""
        self._waited_s += seconds

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says of all this waiting, where it was long enough to be noticed."""
        if not round(self._waited_s):
            return ()
        return (f"the run waited {self._waited_s:.0f} s while other runs measured time, besides the search time",)

    def await_quiet_end(self) -> None:
        """Return when a job may begin: another run that times what decides has ended, or had its seconds."""
        if self._elsewhere or not _is_quiet():
            return
        asked = self._now()
        while _is_quiet() and self._now() - asked < QUIET_S:
            time.sleep(POLL_S)
        self.stood_still(self._now() - asked)

    def stood_still(self, seconds: float) -> None:
        """Note that this thread has waited until now; what another one waited at the same time counts once."""
        with self._guard:
            ended = self._now()
            self._waited_s += max(0.0, min(seconds, ended - self._counted_to))
            self._counted_to = ended

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the clock."""
        if self._elsewhere:
            yield
            return
        asked, told = self._now(), list[str]()
        self._waits_since = asked

        def tell(holder: str) -> None:
            told.append(holder)
            self._say(f"waiting: another optim is timing, {holder}")

        try:
            lock = acquire(CLOCK, self._what, wait_s=self.most_wait_s, on_wait=tell)
        except LockBusyError as error:
            raise OptimError.usage(
                "clock-in-use",
                "the machine is busy with the timing of another run",
                f"{error.holder} has measured time for {self.most_wait_s:.0f} s, and another run would disturb it",
                "run the same command when the other has ended: it continues from here",
            ) from error
        finally:
            waited_s, self._waits_since = self._now() - asked, None
            self._waited_s += waited_s
        if told:
            self._say("timing, after a wait")
        try:
            yield
        finally:
            lock.release()


def _is_quiet() -> bool:
    """Whether another run is to be left alone."""
    since_s = held_for_s(QUIET)
    return since_s is not None and since_s < QUIET_S
