"""What nodes cost where there is time to look at some of them only.

A run of the open model tells what one node alone does to the outputs. What it errs by itself is known of all nodes
from one run, and how much of that is passed on is about the same for nodes of one kind (operator and shape of the
weight), layer after layer::

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
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest
from statistics import median

from optim._engine.gate.node_costs import NodeCost

_LEFT_TO_OTHERS = 4
"""Times as many nodes as looks, at most: where there are fewer looks, segments of nodes say more."""

_FARTHEST = 4.0
"""What was measured corrects squares by so much at most: beyond it something else is wrong."""

_GOLDEN = 0.618034
"""Multiples of it, modulo 1, lie evenly however many there are."""


@dataclass(frozen=True, slots=True)
class OwnError:
    """What a pass does to one node that is given what it is given in the unchanged model.

    Attributes:
        relative: drift of its worst output; infinite where it overflows.
        kind: nodes of one kind pass on about as much of their errors.
        finer: its error in the precision between, of that in the pass's; None where it has none.
        work: how much it computes, in any unit.
    """

    relative: float
    kind: str = ""
    finer: float | None = None
    work: float = 0.0


def costs_of(
    errors: Mapping[str, OwnError], look: Callable[[str], float], may_look: Callable[[int], bool]
) -> dict[str, NodeCost]:
    """What each node costs, in squares of drift.

    Args:
        errors: by the name of the node, in graph order.
        look: the drift with one node alone in the pass's precision.
        may_look: whether there is time for another look after so many.

    Returns:
        Of every node; where nothing was looked at they are right beside each other only.
    """
    looked: dict[str, float] = {}
    for name in _in_turns(errors):
        if not may_look(len(looked)):
            break
        looked[name] = look(name) ** 2
    passed_on = _passed_on(errors, looked)
    costs = {}
    for name, one in errors.items():
        cost = looked.get(name, passed_on(one.kind) * one.relative**2)
        between = cost * one.finer**2 if one.finer is not None and math.isfinite(cost) else None
        costs[name] = NodeCost(cost, between, one.work)
    return costs


def together(costs: Mapping[str, NodeCost], of_finer: float) -> dict[str, NodeCost]:
    """The same, so that all nodes in the precision between drift by what was measured; as it is where that says little.

    Args:
        costs: of all nodes.
        of_finer: the drift of all of them in the precision between, those without one in the pass's.
    """
    coarse = sum(one.coarse for one in costs.values() if one.between is None)
    finer = sum(one.between for one in costs.values() if one.between is not None)
    left = of_finer**2 - coarse
    if not (0 < finer < math.inf and finer / _FARTHEST < left < finer * _FARTHEST):
        return dict(costs)
    return {
        name: one if one.between is None else replace(one, between=one.between * left / finer)
        for name, one in costs.items()
    }


def are_too_many(nodes: Collection[str], most: int) -> bool:
    """Whether so few looks leave too many nodes to what others let expect."""
    return len(nodes) > _LEFT_TO_OTHERS * most


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
