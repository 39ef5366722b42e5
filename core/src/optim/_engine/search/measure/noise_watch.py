"""How much of the machine others use while something is timed."""

from __future__ import annotations

import os
import time

_LEAST_WINDOW_S = 0.4
"""The kernel counts in hundredths of a second: a shorter look says nothing."""


class NoiseWatch:
    """Share of the machine's processors that others used, window by window."""

    def __init__(self) -> None:
        self._start = _busy_s()
        self._since = time.perf_counter()
        self._own_s = 0.0
        self._self_s = time.process_time()

    def add_own(self, cpu_s: float) -> None:
        """Processor time that the timed processes report as theirs."""
        self._own_s += cpu_s

    def foreign_share(self) -> float | None:
        """Share 0..1 used by others since the window began, which then begins anew; None while it is too short."""
        elapsed = time.perf_counter() - self._since
        if elapsed < _LEAST_WINDOW_S:
            return None
        busy = _busy_s()
        own = self._own_s + time.process_time() - self._self_s
        share = max(0.0, (busy - self._start) - own) / (elapsed * (os.cpu_count() or 1))
        self._start, self._since, self._own_s, self._self_s = busy, time.perf_counter(), 0.0, time.process_time()
        return share


def _busy_s() -> float:
    """Seconds that all processors together have been busy or stolen since boot."""
    import psutil

    times = psutil.cpu_times()._asdict()
    counted = ("user", "nice", "system", "irq", "softirq", "steal", "interrupt", "dpc")
    return float(sum(times.get(name, 0.0) for name in counted))
