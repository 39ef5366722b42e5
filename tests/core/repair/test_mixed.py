"""One of three precisions for every node at once: what is cheapest and holds."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from optim._engine.repair.choose import FINER_PRICE, OutOfEvaluations, Question, Repair, choose
from optim._engine.repair.costs import Costs, NodeCost

NAMES = tuple("abcdefgh")
COARSE = {name: 0.1 * (place + 1) for place, name in enumerate(NAMES)}
WHOLE = math.hypot(*COARSE.values())


def costs(part: float = 0.1, *, refinable: str = "abcdefgh", overflowing: str = "") -> Costs:
    """Independent errors; those in the precision between have a part of the coarse one's."""
    return Costs(
        {
            name: NodeCost(math.inf)
            if name in overflowing
            else NodeCost(error**2, (error * part) ** 2 if name in refinable else None)
            for name, error in COARSE.items()
        }
    )


class Measured:
    """Drifts that are a factor off what is expected, counted."""

    def __init__(self, known: Costs, factor: float = 1.0) -> None:
        self.known, self.factor, self.count = known, factor, 0

    def __call__(self, keep: frozenset[str], finer: frozenset[str]) -> float:
        self.count += 1
        return self.factor * self.known.drift(keep, finer)


def find_mix(
    known: Costs,
    drift_of: Callable[[frozenset[str], frozenset[str]], float],
    whole: float,
    goal: float,
    work: dict[str, float] | None = None,
) -> Repair | None:
    """The choice among three precisions, of which costs are known."""
    return choose(Question(tuple(known.of), known.refinable, drift_of, whole, work or {}), known, goal, 40)


def test_the_precision_between_stands_for_nodes_in_float() -> None:
    known = costs()
    measured = Measured(known)
    found = find_mix(known, measured, WHOLE, 0.5 * WHOLE)
    assert found is not None
    assert found.keep == () != found.finer
    assert found.drift == measured(frozenset(found.keep), frozenset(found.finer)) <= 0.5 * WHOLE
    assert found.evaluations <= 2


def test_a_budget_that_the_precision_between_misses_leaves_some_in_float() -> None:
    found = find_mix(costs(0.5), Measured(costs(0.5)), WHOLE, 0.3 * WHOLE)
    assert found is not None
    assert found.keep
    assert found.finer
    assert 0 < found.work < 1


def test_a_node_of_much_work_is_left_in_float_last() -> None:
    work = {name: 50.0 if name == "h" else 1.0 for name in NAMES}
    known = costs(refinable="")
    found = find_mix(known, Measured(known), WHOLE, 0.9 * WHOLE, work)
    assert found is not None
    assert "h" not in found.keep
    assert find_mix(known, Measured(known), WHOLE, 0.9 * WHOLE).keep == ("h",)  # type: ignore[union-attr]


@pytest.mark.parametrize("factor", [0.6, 1.7])
def test_what_is_measured_corrects_what_was_expected(factor: float) -> None:
    known = costs()
    measured = Measured(known, factor)
    found = find_mix(known, measured, WHOLE, 0.5 * WHOLE)
    assert found is not None
    assert found.drift <= 0.5 * WHOLE
    assert measured.count == found.evaluations or found.evaluations < measured.count <= 4


def test_no_node_could_be_one_precision_lower() -> None:
    known = costs(0.3)
    goal = 0.55 * WHOLE
    found = find_mix(known, Measured(known), WHOLE, goal)
    assert found is not None
    keep, finer = frozenset(found.keep), frozenset(found.finer)
    for name in keep | finer:
        lower = finer | {name} if name in keep else finer - {name}
        assert known.drift(keep - {name}, lower) > goal
    assert len(keep) + FINER_PRICE * len(finer) < 4


def test_overflowing_nodes_stay_in_float() -> None:
    known = costs(overflowing="c")
    measured = Measured(known)
    found = find_mix(
        known, lambda keep, finer: measured(keep, finer) if "c" in keep else math.inf, math.inf, 0.5 * WHOLE
    )
    assert found is not None
    assert "c" in found.keep


def test_where_the_time_is_over_nothing_is_found() -> None:
    def late(keep: frozenset[str], finer: frozenset[str]) -> float:
        raise OutOfEvaluations

    assert find_mix(costs(), late, WHOLE, 0.5 * WHOLE) is None


MANY = tuple(f"n{place}" for place in range(1000))
BAD = frozenset({*MANY[400:403], MANY[900]})


def of_many(refinable: frozenset[str] = frozenset(MANY)) -> Costs:
    """A thousand nodes, of which four err by far the most."""
    errors = {name: 1.0 if name in BAD else 0.01 for name in MANY}
    return Costs({n: NodeCost(one**2, (0.1 * one) ** 2 if n in refinable else None) for n, one in errors.items()})


@pytest.mark.parametrize("refinable", [frozenset(MANY), BAD, frozenset()])
def test_of_many_nodes_the_worst_are_chosen(refinable: frozenset[str]) -> None:
    found = find_mix(of_many(refinable), Measured(of_many(refinable)), math.hypot(2.0, 0.01 * 996**0.5), 0.5)
    assert found is not None
    assert frozenset(found.finer) | frozenset(found.keep) == BAD
    assert frozenset(found.finer) <= refinable
    assert found.drift <= 0.5


@pytest.mark.parametrize("refinable", ["", "abcdefgh"])
@pytest.mark.parametrize("known", [True, False])
def test_one_way_in_chooses_among_two_precisions_and_three_with_estimates_and_without(
    refinable: str, known: bool
) -> None:
    """With three precisions less is left in float, whether the third was estimated or only measured."""
    there = costs(refinable=refinable)
    measured = Measured(there, 1.2)
    asked = Question(NAMES, frozenset(refinable), measured, 1.2 * WHOLE, {})
    found = choose(asked, there if known else None, 0.5 * WHOLE, 40)
    assert found is not None
    assert found.drift == measured(frozenset(found.keep), frozenset(found.finer)) <= 0.5 * WHOLE
    assert (found.keep == () != found.finer) if refinable else (found.finer == () != found.keep)
