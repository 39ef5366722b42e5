"""The goals that there are: those whose figures every race or the gate finds out, and those of plugins."""

from __future__ import annotations

from collections.abc import Mapping

from optim._engine.plugins.registry import Registry
from optim.errors import unknown_name
from optim.goal import Amount, Basis, Goal, ModelFigures, Ratio

_SMALLER = 0.995
"""A difference that a report calls the same size is no result."""

_LESS_MEMORY = 0.98
"""Peak memory differs by about a per cent from process to process."""


class Latency(Goal):
    """How long single calls take."""

    name = "latency"
    summary = "time of a single run"
    basis = Basis.CALLS
    unit = "ms"

    def time_of(self, found: ModelFigures) -> Ratio | None:
        """That of calls."""
        return found.calls

    def amount(self, found: ModelFigures) -> Amount | None:
        """Milliseconds of a call."""
        return found.latency


class Size(Goal):
    """Bytes on disk; also the goal where time means nothing."""

    name = "size"
    summary = "size on disk"
    basis = Basis.SIZE
    unit = "B"

    def figure(self, found: ModelFigures) -> float:
        """Bytes."""
        return float(found.size_bytes)

    def amount(self, found: ModelFigures) -> Amount:
        """Bytes, which are exact."""
        return Amount(*3 * (float(found.size_bytes),))

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Whether a report would call it smaller."""
        return found.size_bytes < _SMALLER * original.size_bytes


class Memory(Goal):
    """The peak of memory of opening and running a model."""

    name = "memory"
    summary = "peak memory of opening and running the model"
    basis = Basis.MEMORY
    unit = "B"

    def figure(self, found: ModelFigures) -> float | None:
        """Bytes."""
        return float(found.peak_memory_bytes) or None

    def amount(self, found: ModelFigures) -> Amount | None:
        """Bytes, with what processes differ by."""
        peak = float(found.peak_memory_bytes)
        return Amount(peak, peak * _LESS_MEMORY, peak / _LESS_MEMORY) if peak else None

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Whether it takes less than processes differ by."""
        return 0 < found.peak_memory_bytes < _LESS_MEMORY * original.peak_memory_bytes


class Accuracy(Goal):
    """As accurate as the bounds on other figures allow."""

    name = "accuracy"
    summary = "least drift, or best metric, within --max-size, --max-memory and --max-latency"
    basis = Basis.ACCURACY

    def figure(self, found: ModelFigures) -> float:
        """Drift, or the loss of the task metric."""
        return found.inaccuracy

    def is_reached(self, found: ModelFigures, original: ModelFigures) -> bool:
        """Never: nothing is nearer to the original than the original. A bound that it breaks asks for another model."""
        return False


SIZE = Size()
OWN_GOALS: Mapping[str, Goal] = {goal.name: goal for goal in (Latency(), SIZE, Memory(), Accuracy())}


def goals(registry: Registry) -> Mapping[str, Goal]:
    """All goals by name."""
    return {**OWN_GOALS, **{name: offer.value() for name, offer in registry.offered("goal").items()}}


def find_goal(registry: Registry, name: str) -> Goal:
    """The goal of that name."""
    goal = OWN_GOALS.get(name) or goals(registry).get(name)
    if goal is None:
        registry.raise_if_lost("goal", name)
        raise unknown_name("goal", name, goals(registry), fix="optim run --help")
    return goal


def release_of(registry: Registry, goal: Goal) -> str:
    """The distribution that brings a goal, with its version; empty for optim itself."""
    offer = None if goal.name in OWN_GOALS else registry.offered("goal").get(goal.name)
    return offer.plugin.release if offer is not None else ""
