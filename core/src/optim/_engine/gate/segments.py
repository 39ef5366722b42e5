"""Choosing among precisions where nodes are too many to look at each: consecutive nodes that cost much are told apart.

Groups of consecutive nodes are looked at, and the costliest halved again and again, as far as a third of the guesses
goes (:func:`optim._engine.gate.units.find_units`). A segment then has one precision, as a node has elsewhere: of one in
the precision between, nodes that have none stay in the pass's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from optim._engine.gate.precisions import Precisions
from optim._engine.gate.repair import OutOfEvaluations
from optim._engine.gate.units import find_units

_GROUPS = 12
"""To begin with; with more, fewer are left to halve the costliest."""

_SHARE = 1 / 3
"""Of the guesses that are left beside choosing, for telling segments apart: each is looked at in a second precision."""


@dataclass(frozen=True, slots=True)
class Segments:
    """Consecutive nodes that are decided together.

    Attributes:
        precisions: of segments, each called by its first node.
        names: the nodes of each, in graph order.
        looked: guesses that finding them took.
    """

    precisions: Precisions
    names: Mapping[str, tuple[str, ...]]
    looked: int

    def nodes(self, segments: Iterable[str], among: frozenset[str] | None = None) -> frozenset[str]:
        """The nodes of some segments, and of what is none; of ``among`` only, where that is given."""
        found = frozenset(name for one in segments for name in self.names.get(one, (one,)))
        return found if among is None else found & among

    def prices(self, of_nodes: Mapping[str, float]) -> dict[str, float]:
        """What segments cost, and nodes that are in none."""
        decided = (*self.precisions.nodes, *self.precisions.overflowing)
        return {one: sum(of_nodes[name] for name in self.nodes([one])) for one in decided}


def find_segments(precisions: Precisions, guesses: int) -> Segments | None:
    """The segments that so many guesses tell apart; None where they are too few to begin with."""
    probes = int(_SHARE * guesses)
    if probes < 2 * _GROUPS:
        return None
    known: dict[tuple[frozenset[str], frozenset[str]], float] = {}

    def guess(converted: frozenset[str], finer: frozenset[str]) -> float:
        if (converted, finer) not in known:
            known[converted, finer] = precisions.guess(converted, finer)
        return known[converted, finer]

    try:
        units = find_units(precisions.nodes, lambda converted: guess(converted, frozenset()), _GROUPS, probes)
    except OutOfEvaluations:
        return None
    names = {unit.names[0]: unit.names for unit in units}
    looked = len(known)

    def of_segments(converted: frozenset[str], finer: frozenset[str]) -> float:
        refined = frozenset(name for one in finer for name in names[one])
        coarse = frozenset(name for one in converted for name in names[one]) | (refined - precisions.refinable)
        return guess(coarse, refined & precisions.refinable)

    refinable = frozenset(one for one, nodes in names.items() if precisions.refinable.intersection(nodes))
    found = replace(
        precisions, guess=of_segments, nodes=tuple(names), refinable=refinable, most=precisions.most - looked
    )
    return Segments(found, names, looked)
