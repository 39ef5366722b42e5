"""How much of the processors other programs take while something is timed: Linux alone says it."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

MOST = 0.05
"""Share of the processors. If other programs took more during a race, it does not count."""


class Watch:
    """Begins when it is made; ends when the processes that were started meanwhile have ended and were waited for."""

    def __init__(self) -> None:
        self.began, self.before = time.monotonic(), _busy_s() - _own_s()

    def others(self) -> float:
        """Share of all processors that other programs, or other machines of the same host, took; 0 where unknown."""
        taken = _busy_s() - _own_s() - self.before
        return max(0.0, taken / (time.monotonic() - self.began) / (os.cpu_count() or 1))


def _busy_s() -> float:
    """Seconds that all processors worked, or worked for another machine of the same host."""
    try:
        words = Path("/proc/stat").read_text(encoding="utf-8").split(maxsplit=9)
    except OSError:
        return 0.0
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, words[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """Seconds of this process and of its ended children."""
    if not Path("/proc/stat").exists():
        return 0.0
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
