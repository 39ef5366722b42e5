"""The clocks that there are, by their goals."""

from __future__ import annotations

from typing import TypeAlias

from optim._engine.generation.workload import Workload
from optim._engine.jobs.clocks.genai import GenaiClock
from optim._engine.jobs.clocks.generate import GenerateClock
from optim._engine.jobs.clocks.startup import StartupClock
from optim._engine.jobs.clocks.throughput import ThroughputClock

Clock: TypeAlias = StartupClock | ThroughputClock | GenerateClock | GenaiClock
"""What travels to a lane; its ``kind`` says which it is."""


def clock_of(goal: str, workload: Workload, max_latency_ms: float | None) -> Clock | None:
    """The clock of a goal; None where the goal is what every race finds out: latency, size or memory.

    Args:
        goal: of the run.
        workload: tokens of an answer.
        max_latency_ms: what throughput is bounded by; None: nothing.
    """
    if goal == "generate":
        return GenerateClock(workload.prompt, workload.new)
    if goal == "startup":
        return StartupClock()
    if goal == "throughput":
        return ThroughputClock(max_latency_ms / 1e3 if max_latency_ms is not None else None)
    return None
