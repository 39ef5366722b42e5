"""What is known of a pass's precision and the one between, before a choice is made for each node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from optim._engine.gate.repair import Estimate

Drift: TypeAlias = Callable[[frozenset[str], frozenset[str]], float]
"""Of two sets of nodes; which ones they are is said where it is asked for."""


@dataclass(frozen=True, slots=True)
class Precisions:
    """What is known of three precisions.

    Attributes:
        guess: the drift with some nodes in the pass's precision and others in the one between.
        nodes: those that it knows, in graph order, the overflowing ones left out.
        refinable: those of them that have a precision between.
        overflowing: nodes that must be left alone.
        most: so many guesses may be asked for.
    """

    guess: Drift
    nodes: tuple[str, ...]
    refinable: frozenset[str]
    overflowing: tuple[str, ...] = ()
    most: int = 1000

    @property
    def without_finer(self) -> Estimate:
        """The same of the pass's precision alone."""
        return Estimate(lambda converted: self.guess(converted, frozenset()), self.nodes, self.overflowing, self.most)

    def are_few(self, beside: int) -> bool:
        """Whether there are guesses enough for each node in each precision, and so many beside."""
        return 1 + len(self.nodes) + len(self.refinable) + beside <= self.most
