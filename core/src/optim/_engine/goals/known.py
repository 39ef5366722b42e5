"""The goals that there are: latency, size and memory, whose figures every race finds out, and those of plugins."""

from __future__ import annotations

from collections.abc import Mapping

from optim._engine.plugins.registry import Registry
from optim.errors import OptimError, unknown_name
from optim.goal import Basis, Goal, GoalRequest, ModelFigures, Ratio

_SMALLER = 0.995
"""A difference that a report calls the same size is no result."""

_LESS_MEMORY = 0.98
"""Peak memory differs by about a per cent from process to process."""


class Latency(Goal):
    """How long single calls take."""

    name = "latency"
    summary = "time of a single run"
    basis = Basis.CALLS

    def time_of(self, found: ModelFigures) -> Ratio | None:
        """That of calls."""
        return found.calls


class Size(Goal):
    """Bytes on disk; also the goal where time means nothing."""

    name = "size"
    summary = "size on disk"
    basis = Basis.SIZE

    def time_of(self, found: ModelFigures) -> Ratio | None:
        """It is no time."""
        return None

    def figure(self, found: ModelFigures) -> float:
        """Bytes."""
        return float(found.size_bytes)

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Whether a report would call it smaller."""
        return found.size_bytes < _SMALLER * original.size_bytes


class Memory(Goal):
    """The peak of memory of opening and running a model."""

    name = "memory"
    summary = "peak memory of opening and running the model"
    basis = Basis.MEMORY

    def time_of(self, found: ModelFigures) -> Ratio | None:
        """It is no time."""
        return None

    def figure(self, found: ModelFigures) -> float | None:
        """Bytes."""
        return float(found.peak_memory_bytes) or None

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Whether it takes less than processes differ by."""
        return 0 < found.peak_memory_bytes < _LESS_MEMORY * original.peak_memory_bytes


LATENCY, SIZE, MEMORY = Latency(), Size(), Memory()


OWN_GOALS: Mapping[str, Goal] = {goal.name: goal for goal in (LATENCY, SIZE, MEMORY)}


def goals(registry: Registry) -> Mapping[str, Goal]:
    """All goals by name."""
    return {**OWN_GOALS, **{name: offer.value() for name, offer in registry.offered("goal").items()}}


def find_goal(registry: Registry, name: str, asked: GoalRequest) -> Goal:
    """The goal of that name, if it takes what the user says of it.

    Raises:
        OptimError[unknown-goal]: no usable plugin adds it; lists the near ones.
        OptimError[plugin-failed]: what a plugin offers under that name cannot be used.
        OptimError[conflicting-request]: a limit of latency, and the goal knows none.
    """
    goal = OWN_GOALS.get(name) or goals(registry).get(name)
    if goal is None:
        registry.raise_if_lost("goal", name)
        raise unknown_name("goal", name, goals(registry), fix="optim run --help")
    if asked.max_latency_ms is not None and "max_latency_ms" not in goal.takes:
        takers = [one.name for one in goals(registry).values() if "max_latency_ms" in one.takes] or ["throughput"]
        raise OptimError.usage(
            "conflicting-request",
            f"--max-latency needs --goal {' or '.join(takers)}; the goal is {goal.name}",
            "only that goal trades latency for throughput",
            fix=f"add --goal {takers[0]}",
        )
    return goal


def release_of(registry: Registry, goal: Goal) -> str:
    """The distribution that brings a goal, with its version; empty for optim itself."""
    offer = None if goal.name in OWN_GOALS else registry.offered("goal").get(goal.name)
    return offer.plugin.release if offer is not None else ""
