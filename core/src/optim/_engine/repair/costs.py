"""What single nodes cost, as one repair learned it, and what that says of another chain with nodes of the same names.

Drifts of independent roundings add up in squares, so without running anything the drift of a set is about::

    drift(set) = sqrt(sum of cost(node) over the set),    cost(node) = (drift with this node alone) ** 2

What comes before a pass, such as a fusion, changes little of what its nodes cost beside each other. How much they come
to together differs more, so whoever decides measures the whole, and corrects by that.

Where there is time to look at some of them only, a run of the open model tells what one node alone does to the outputs.
What it errs by itself is known of all nodes from one run, and how much of that is passed on is about the same for nodes
of one kind (operator and shape of the weight), layer after layer::

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
from typing import TypeAlias

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

    def are_few(self, beside: int) -> bool:
        """Whether there are guesses enough for each node in each precision, and so many beside."""
        return 1 + len(self.nodes) + len(self.refinable) + beside <= self.most


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
