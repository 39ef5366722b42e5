"""How a search stands: what a person who waits is shown beside the words of what is going on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Standing:
    """How a search stands.

    Attributes:
        stage: that it is at; empty before and after the search.
        tried: candidates of this stage that have been begun.
        of: candidates of this stage, as far as they are known.
        best_ratio: latency of the best so far to that of the original; None where nothing was timed yet.
        seconds_left: of what was announced for the search; None before and after it.
        target: that is searched for, where several compete.
    """

    stage: str = ""
    tried: int = 0
    of: int = 0
    best_ratio: float | None = None
    best_drift: float = 0.0
    seconds_left: Callable[[], float] | None = None
    target: str = ""


def let_stand(say: Callable[[str], None], text: str) -> None:
    """Say what is still to be read when something else goes on, to a listener's ``keep`` if it has one."""
    getattr(say, "keep", say)(text)


class Teller:
    """Tells a listener's ``hear`` how the search stands; a plain function that takes lines of text is told nothing."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._hear: Callable[[Standing], None] | None = getattr(say, "hear", None)
        self._standing = Standing()
        self._lock = threading.RLock()  # candidates are tried side by side

    def on_target(self, name: str) -> None:
        """The next of several targets has its turn."""
        self._note(target=name)

    def stage(self, name: str, seconds_left: Callable[[], float] | None = None) -> None:
        """A stage begins; without a name the search is over."""
        self._note(stage=name, tried=0, of=0, seconds_left=seconds_left)

    def more(self, candidates: int) -> None:
        """So many more candidates of this stage are going to be tried."""
        with self._lock:
            self._note(of=self._standing.of + candidates)

    def trying(self) -> None:
        """Another candidate of them is begun, or its result is known already."""
        with self._lock:
            self._note(tried=self._standing.tried + 1)

    def measured(self, ratio: float | None, drift: float) -> None:
        """A candidate that holds was timed."""
        best = self._standing.best_ratio
        if ratio is not None and (best is None or ratio < best):
            self._note(best_ratio=ratio, best_drift=drift)

    def _note(self, **changes: Any) -> None:
        if self._hear is not None:
            with self._lock:
                self._standing = replace(self._standing, **changes)
                self._hear(self._standing)
