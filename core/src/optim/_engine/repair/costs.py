"""What single nodes cost, and what sets of them drift by that.

Drifts of independent roundings add up in squares, so without running anything the drift of a set is about::

    drift(set) = sqrt(ground ** 2 + sum of cost(node) over the set)
    cost(node) = (drift with this node alone) ** 2 - ground ** 2

``ground`` is the drift of the model before the pass. What comes before a pass, such as a fusion, changes little of what
its nodes cost beside each other, so a repair of another chain begins with what an earlier one learned. How much nodes
come to together differs more, so whoever decides measures the whole, and corrects by that.

A run of the open model (:mod:`optim._engine.repair.replay`) tells what one node alone does to the outputs. What it errs
by itself is known of all nodes from one run, and how much of that is passed on is about the same for nodes of one kind
(operator and shape of the weight), layer after layer::

    cost(node) ~ c(kind) * (error of the node by itself) ** 2

Kinds are looked at in turns, as many nodes as there is time for; the others cost what ``c`` of these lets expect. Of a
BERT-base what a node errs by itself says nothing across kinds: queries err as much as what follows a Gelu, and cost a
hundredth. The outputs take an error on in the same way whatever precision made it, so of the precision between nothing
is looked at; there that came within a tenth for every node that matters::

    cost(node in the precision between) ~ cost(node) * (its error there / its error here) ** 2
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

_LEAST_KNOWN = 0.5
"""Share of the nodes that must be known: fusions rename some, and with fewer the average stands for too many."""

_FARTHEST = 4.0
"""What was measured corrects squares by so much at most: beyond it something else is wrong."""

_GOLDEN = 0.618034
"""Multiples of it, modulo 1, lie evenly however many there are."""


@dataclass(frozen=True, slots=True)
class NodeCost:
    """One node, in squares of drift.

    Attributes:
        coarse: what it costs in the pass's precision; infinite where it overflows.
        between: the same in the precision between; None where it has none, or nobody knows.
        work: how much it computes, in any unit; 0 where nobody knows.
    """

    coarse: float
    between: float | None = None
    work: float = 0.0


@dataclass(frozen=True, slots=True)
class Costs:
    """What nodes cost.

    Attributes:
        of: by the name of the node, in graph order.
        ground: drift with nothing converted.
    """

    of: Mapping[str, NodeCost]
    ground: float = 0.0

    @property
    def overflowing(self) -> frozenset[str]:
        """Nodes that must be left alone."""
        return frozenset(name for name, one in self.of.items() if not math.isfinite(one.coarse))

    @property
    def refinable(self) -> frozenset[str]:
        """Nodes whose cost in the precision between is known."""
        return frozenset(name for name, one in self.of.items() if one.between is not None)

    def drift(self, keep: Collection[str], finer: Collection[str]) -> float:
        """The drift to expect with some nodes left alone, and others in the precision between."""
        total = self.ground**2
        for name, one in self.of.items():
            if name in finer and one.between is not None:
                total += one.between
            elif name not in keep:
                total += one.coarse
        return math.sqrt(total)

    def together(self, of_finer: float) -> Costs:
        """The same, so that all nodes in the precision between drift by what was measured, if that says anything."""
        coarse = sum(one.coarse for one in self.of.values() if one.between is None)
        finer = sum(one.between for one in self.of.values() if one.between is not None)
        left = of_finer**2 - self.ground**2 - coarse
        if not (0 < finer < math.inf and finer / _FARTHEST < left < finer * _FARTHEST):
            return self
        return replace(
            self,
            of={
                name: one if one.between is None else replace(one, between=one.between * left / finer)
                for name, one in self.of.items()
            },
        )

    def elsewhere(self, nodes: Sequence[str], refinable: Collection[str]) -> Costs | None:
        """What these costs say of the nodes of another chain; a node that is not known costs as much as the average.

        Args:
            nodes: that are to be decided, in graph order.
            refinable: those of them that have a precision between.

        Returns:
            None where too little is known of them.
        """
        known = [self.of[name] for name in nodes if name in self.of and name not in self.overflowing]
        others = sum(name not in self.overflowing for name in nodes)
        refined = [one.between for one in known if one.between is not None]
        if not known or len(known) < _LEAST_KNOWN * others or (refinable and not refined):
            return None
        mean = sum(one.coarse for one in known) / len(known)
        between = sum(refined) / len(refined) if refined else None

        def cost(name: str) -> NodeCost:
            one = self.of.get(name, NodeCost(mean))
            of_finer = (between if one.between is None else one.between) if name in refinable else None
            return replace(one, between=of_finer)

        return Costs({name: cost(name) for name in nodes})


@dataclass(frozen=True, slots=True)
class OwnError:
    """What a pass does to one node that is given what it is given in the unchanged model.

    Attributes:
        relative: relative L2 distance of its worst output; infinite where NaN or infinities are at other places.
        kind: operator and shape of the weight.
        finer: its error in the precision between, of that in the pass's; None where it was not replayed in that.
        work: how much it computes, about, in multiplications.
    """

    relative: float
    kind: str = ""
    finer: float | None = None
    work: float = 0.0


def costs_of(
    errors: Mapping[str, OwnError], ground: float, look: Callable[[str], float], may_look: Callable[[int], bool]
) -> Costs:
    """What each node costs.

    Returns:
        Of every node; where nothing was looked at they are right beside each other only.
    """
    looked: dict[str, float] = {}
    for name in _in_turns(errors):
        if not may_look(len(looked)):
            break
        looked[name] = max(0.0, look(name) ** 2 - ground**2)
    passed_on = _passed_on(errors, looked)
    costs = {}
    for name, one in errors.items():
        cost = looked.get(name, passed_on(one.kind) * one.relative**2)
        between = cost * one.finer**2 if one.finer is not None and math.isfinite(cost) else None
        costs[name] = NodeCost(cost, between, one.work)
    return Costs(costs, ground)


def _in_turns(errors: Mapping[str, OwnError]) -> list[str]:
    """Those that are finite, a node of each kind in turn, spread evenly over the graph."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for name, one in errors.items():
        if math.isfinite(one.relative):
            kinds[one.kind].append(name)
    spread = [sorted(enumerate(names), key=lambda placed: placed[0] * _GOLDEN % 1) for names in kinds.values()]
    return [placed[1] for turn in zip_longest(*spread) for placed in turn if placed is not None]


def _passed_on(errors: Mapping[str, OwnError], looked: Mapping[str, float]) -> Callable[[str], float]:
    """What the outputs have of the square of a node's own error, by its kind."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, cost in looked.items():
        if errors[name].relative > 0:
            found[errors[name].kind].append(cost / errors[name].relative ** 2)
    of_kind = {kind: median(shares) for kind, shares in found.items()}
    usual = median(of_kind.values()) if of_kind else 1.0
    return lambda kind: of_kind.get(kind, usual)
