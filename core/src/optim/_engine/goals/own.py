"""The goals that need no clock of their own, since every race finds out their figures: latency, size and memory."""

from __future__ import annotations

from optim.goal import Basis, Goal, ModelFigures, Ratio

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
