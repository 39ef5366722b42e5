"""Seconds that are counted while they are spent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Allowance:
    """Seconds for one kind of work; they run while :meth:`spending` is entered.

    Args:
        seconds: of it.
        now: seconds of a clock that never goes back.
        most: what all else leaves of a larger whole.
    """

    def __init__(self, seconds: float, now: Callable[[], float], most: Callable[[], float] = lambda: math.inf) -> None:
        self._seconds = seconds
        self._now = now
        self._most = most
        self._since: float | None = None

    @property
    def left(self) -> float:
        """Seconds that are left; below zero where they are overdrawn."""
        return min(self.left_of_its_own, self._most())

    @property
    def left_of_its_own(self) -> float:
        """Seconds that are left of its own, whatever the larger whole leaves."""
        return self._seconds - (self._now() - self._since if self._since is not None else 0.0)

    def give(self, seconds: float) -> None:
        """Have so many seconds from now on, whatever was spent before."""
        self._seconds = seconds

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count what is done inside."""
        self._since = self._now()
        try:
            yield
        finally:
            self._seconds, self._since = self.left_of_its_own, None
