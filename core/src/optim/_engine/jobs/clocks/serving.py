"""How a model is run where many calls come at once, and how long those calls took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Serving:
    """A way to run a model on one machine.

    Attributes:
        batch: samples in a call.
        sessions: of the model in one process, each called by a thread of its own. A runtime lets go of Python while it
            computes, so they do what as many processes would, in less memory.
        threads: of each session; None: as many as the model's settings say.
    """

    batch: int = 1
    sessions: int = 1
    threads: int | None = None

    @property
    def text(self) -> str:
        """E.g. ``batch 8, 2 sessions of 1 thread``."""
        threads = "" if self.threads is None else f" of {self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"batch {self.batch}, {self.sessions} session{'s' if self.sessions > 1 else ''}{threads}"


@dataclass(frozen=True, slots=True)
class Tried:
    """A serving that was looked at.

    Attributes:
        serving: that was.
        samples_per_s: that it did.
        p95_s: what 95 of 100 of its calls kept within.
        problem: why it has no figures, or may not be taken; else empty.
    """

    serving: Serving
    samples_per_s: float = 0.0
    p95_s: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Served:
    """What was chosen for a model.

    Attributes:
        serving: that is timed.
        tried: what it was chosen from, the way that it came first.
        limit_ms: what 95 of 100 calls must keep within; None: as long as it takes.
        note: what bounded the choice; else empty.
    """

    serving: Serving
    tried: tuple[Tried, ...]
    limit_ms: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """How long calls took, in milliseconds; between two calls the time is interpolated."""

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


def p95_of(seconds: Sequence[float]) -> float:
    """What 95 of 100 calls keep within, in seconds."""
    import numpy as np

    return float(np.percentile(seconds, 95))


@dataclass(frozen=True, slots=True)
class Throughput:
    """What a model did where throughput is the goal.

    Attributes:
        served: how it was run, and what that was chosen from.
        samples_per_s: median over rounds.
        calls: how long its calls took, over all rounds.
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
