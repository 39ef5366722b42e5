"""How long calls of a model took, and what it did where many came at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from optim.goal import Served


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How long calls took, in milliseconds; between two calls the time is interpolated.

    Attributes:
        p50: median.
        p90: 90 of 100 calls take at most this.
        p95: 95 of 100 calls take at most this.
        p99: 99 of 100 calls take at most this.
        calls: number of calls.
    """

    p50: float
    p90: float
    p95: float
    p99: float
    calls: int


def percentiles(seconds: Iterable[float]) -> Percentiles | None:
    """Of calls; None where there were none."""
    import numpy as np  # what reads a session file starts without it

    times = np.fromiter(seconds, float) * 1e3
    if not times.size:
        return None
    p50, p90, p95, p99 = (float(found) for found in np.percentile(times, [50, 90, 95, 99]))
    return Percentiles(p50, p90, p95, p99, len(times))


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a model did where throughput is the goal.

    Attributes:
        served: how it was run, and what that was chosen from.
        samples_per_s: median over rounds.
    """

    served: Served
    samples_per_s: float
    calls: Percentiles

    @property
    def objection(self) -> str:
        """That more than 5 of 100 calls took longer than the limit; else empty."""
        limit = self.served.limit_ms
        if limit is None or self.calls.p95 <= limit:
            return ""
        return f"the p95 latency is {self.calls.p95:.3g} ms, and --max-latency allows {limit:g} ms"
