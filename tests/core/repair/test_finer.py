"""Where nothing is known of the precision between, measurements move nodes from float to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection

from optim._engine.repair.choose import OutOfEvaluations, Question, Repair, choose
from optim._engine.repair.costs import Costs, NodeCost

NAMES = tuple("abcdefgh")
COARSE = {name: 0.1 * (place + 1) for place, name in enumerate(NAMES)}
WHOLE = math.hypot(*COARSE.values())


def drifts(part: float) -> Callable[..., float]:
    """Independent errors; those in the precision between have a part of the coarse one's."""

    def drift_of(keep: Collection[str], finer: Collection[str]) -> float:
        errors = {**COARSE, **{name: COARSE[name] * part for name in finer}, **dict.fromkeys(keep, 0.0)}
        return math.hypot(*errors.values())

    return drift_of


KNOWN = Costs({name: NodeCost(error**2) for name, error in COARSE.items()})
"""What is known of two precisions."""


def found(part: float, goal: float, refinable: str = "abcdefgh", work: dict[str, float] | None = None) -> Repair:
    """The choice of four nodes in float, and what of it goes to the precision between."""
    chosen = choose(Question(NAMES, frozenset(refinable), drifts(part), WHOLE, work or {}), KNOWN, goal, 40)
    assert chosen is not None
    assert drifts(part)(chosen.keep, chosen.finer) == chosen.drift <= goal
    return chosen


def test_all_go_where_that_holds() -> None:
    repair = found(0.1, 0.6)
    assert (repair.keep, repair.work) == ((), 0.0)
    assert repair.finer == NAMES[4:]
    assert "0 nodes left in float, 0% of the work, 4 in a finer precision" in repair.text("in float")


def test_as_many_as_hold() -> None:
    repair = found(0.6, 0.72)
    assert repair.keep
    assert repair.finer
    assert math.isclose(repair.work, len(repair.keep) / len(NAMES))


def test_what_does_not_hold_is_left_as_it_was() -> None:
    assert found(1.0, 0.55).finer == ()


def test_nodes_without_such_a_precision_stay_kept() -> None:
    assert found(0.1, 0.6, "").finer == ()
    assert found(0.1, 0.6, "h").finer == ("h",)


def test_it_ends_with_the_time() -> None:
    left = [1]

    def out_of_time(keep: frozenset[str], finer: frozenset[str]) -> float:
        if not left:
            raise OutOfEvaluations
        left.pop()
        return drifts(0.1)(keep, finer)

    chosen = choose(Question(NAMES, frozenset(NAMES), out_of_time, WHOLE, {}), KNOWN, 0.6, 40)
    assert chosen is not None
    assert (chosen.keep, chosen.finer) == (NAMES[4:], ())
