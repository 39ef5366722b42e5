"""What nodes cost is learned from estimates on one chain, and proposes sets on another."""

from __future__ import annotations

import math

import pytest

from optim._engine.repair.costs import LearnedCosts, NodeCost, precisions_of

NODES = ("a", "b", "c", "d")


def test_the_smallest_set_says_what_a_node_costs() -> None:
    learned = LearnedCosts()
    learned.note(frozenset(NODES), frozenset(), 0.4)
    learned.note(frozenset("a"), frozenset(), 0.3)
    learned.note(frozenset("ab"), frozenset(), 9.0)
    learned.note(frozenset(), frozenset("a"), 0.1)
    learned.note(frozenset("a"), frozenset("b"), 9.0)  # says nothing of either alone
    learned.note(frozenset("c"), frozenset(), math.inf)
    found = learned.found({"a": 2.0}, overflowing=("d",))
    assert found["a"] == NodeCost(pytest.approx(0.09), pytest.approx(0.01), 2.0)
    assert found["b"] == NodeCost(pytest.approx(40.5), None)
    assert found["c"] == NodeCost(pytest.approx(0.04), None)
    assert math.isinf(found["d"].coarse)


def test_squares_add_up_and_unknown_nodes_cost_the_average() -> None:
    costs = {"a": NodeCost(0.09, 0.01), "b": NodeCost(0.16, 0.03), "gone": NodeCost(5.0, 1.0)}
    known = precisions_of(costs, ("a", "b", "new"), ("a", "b", "new"))
    assert known is not None
    assert known.guess(frozenset("ab"), frozenset()) == pytest.approx(0.5)
    assert known.guess(frozenset(("new",)), frozenset()) == pytest.approx(math.sqrt(0.125))
    assert known.guess(frozenset(), frozenset(("a", "new"))) == pytest.approx(math.sqrt(0.03))
    assert known.are_few(64)


def test_nodes_that_overflow_are_left_alone() -> None:
    known = precisions_of({"a": NodeCost(math.inf), "b": NodeCost(0.1)}, ("a", "b"), ())
    assert known is not None
    assert (known.nodes, known.overflowing) == (("b",), ("a",))


@pytest.mark.parametrize(
    ("costs", "refinable"), [({"a": NodeCost(0.1)}, ()), ({name: NodeCost(0.1) for name in NODES}, NODES)]
)
def test_too_little_that_is_known_proposes_nothing(costs: dict[str, NodeCost], refinable: tuple[str, ...]) -> None:
    assert precisions_of(costs, NODES, refinable) is None
