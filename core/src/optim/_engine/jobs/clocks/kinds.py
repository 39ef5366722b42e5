"""The clocks that there are, by their goals."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from optim._engine.jobs.clocks.genai import GenaiClock
from optim._engine.jobs.clocks.generate import GenerateClock
from optim._engine.jobs.clocks.startup import StartupClock
from optim._engine.jobs.clocks.throughput import ThroughputClock

if TYPE_CHECKING:
    from optim._engine.search.settings import RunSettings

Clock: TypeAlias = StartupClock | ThroughputClock | GenerateClock | GenaiClock
"""What travels to a lane; its ``kind`` says which it is."""


def clock_of(settings: RunSettings) -> Clock | None:
    """The clock of a run's goal; None where the goal is what every race finds out: latency, size or memory."""
    if settings.goal == "generate":
        work = settings.workload
        return GenerateClock(work.prompt, work.new)
    if settings.goal == "startup":
        return StartupClock()
    if settings.goal == "throughput":
        return ThroughputClock(settings.max_latency_ms / 1e3 if settings.max_latency_ms is not None else None)
    return None
