"""What single nodes cost, as one repair learned it, and what that says of another chain with nodes of the same names.

Drifts of independent roundings add up in squares, so without running anything the drift of a set is about::

    drift(set) = sqrt(sum of cost(node) over the set),    cost(node) = (drift with this node alone) ** 2

What comes before a pass, such as a fusion, changes little of what its nodes cost beside each other. How much they come
to together differs more, so whoever decides measures the whole, and corrects by that.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from optim._engine.gate.precisions import Precisions

_LEAST_KNOWN = 0.5
"""Share of the nodes that must be known: fusions rename some, and with fewer the average stands for too many."""

_MOST_GIVEN_BACK = 500
"""Guesses beyond those for each node: one for a set takes as long as the set is large."""

_BESIDE = 65
"""Guesses for finding the price of drift."""


@dataclass(frozen=True, slots=True)
class NodeCost:
    """One node, in squares of drift.

    Attributes:
        coarse: what it costs in the pass's precision; infinite where it overflows.
        between: the same in the precision between; None where nobody knows.
        work: how much it computes, in any unit; 0 where nobody knows.
    """

    coarse: float
    between: float | None = None
    work: float = 0.0


class LearnedCosts:
    """Costs, as estimates of sets tell them: a set stands for its nodes in equal parts, the smallest set for each.

    Attributes:
        count: of the sets that were noted.
    """

    def __init__(self) -> None:
        self.count = 0
        self._coarse: dict[str, tuple[int, float]] = {}
        self._between: dict[str, tuple[int, float]] = {}

    def note(self, converted: Collection[str], finer: Collection[str], drift: float) -> None:
        """Note the drift of a set that is all in one precision."""
        if bool(converted) == bool(finer) or not math.isfinite(drift):
            return
        self.count += 1
        names, known = (converted, self._coarse) if converted else (finer, self._between)
        for name in names:
            if len(names) <= known.get(name, (math.inf,))[0]:
                known[name] = (len(names), drift**2 / len(names))

    def found(self, work: Mapping[str, float], overflowing: Collection[str] = ()) -> dict[str, NodeCost]:
        """The cost of each node of which anything is known."""
        costs = {
            name: NodeCost(cost, self._between[name][1] if name in self._between else None, work.get(name, 0.0))
            for name, (_, cost) in self._coarse.items()
        }
        return costs | {name: NodeCost(math.inf, None, work.get(name, 0.0)) for name in overflowing}


def precisions_of(costs: Mapping[str, NodeCost], nodes: Sequence[str], refinable: Collection[str]) -> Precisions | None:
    """What costs that were learned elsewhere say of these nodes.

    Args:
        costs: by the name of the node.
        nodes: that are to be decided, in graph order; one that is not known costs as much as they do on average.
        refinable: those of them that have a precision between.

    Returns:
        None where too little is known of them.
    """
    overflowing = tuple(name for name in nodes if name in costs and math.isinf(costs[name].coarse))
    decided = tuple(name for name in nodes if name not in overflowing)
    known = [costs[name] for name in decided if name in costs]
    if not known or len(known) < _LEAST_KNOWN * len(decided):
        return None
    refined = [one for one in known if one.between is not None]
    if refinable and not refined:
        return None
    mean = NodeCost(
        sum(one.coarse for one in known) / len(known),
        sum(one.between or 0.0 for one in refined) / len(refined) if refined else None,
    )
    coarse = {name: costs.get(name, mean).coarse for name in decided}
    between = {name: costs.get(name, mean).between for name in decided}

    def guess(converted: frozenset[str], finer: frozenset[str]) -> float:
        of_finer = (mean.between if between[name] is None else between[name] for name in finer)
        return math.sqrt(sum(coarse[name] for name in converted) + sum(cost or 0.0 for cost in of_finer))

    most = 1 + len(decided) + len(refinable) + _BESIDE + min(len(decided), _MOST_GIVEN_BACK)
    return Precisions(guess, decided, frozenset(refinable).intersection(decided), overflowing, most)
