"""What nodes cost on one chain, and what that says of another."""

from __future__ import annotations

import math

import pytest

from optim._engine.repair.costs import Costs, NodeCost

NODES = ("a", "b", "c", "d")


def test_squares_add_up_and_unknown_nodes_cost_the_average() -> None:
    costs = Costs({"a": NodeCost(0.09, 0.01), "b": NodeCost(0.16, 0.03), "gone": NodeCost(5.0, 1.0)})
    known = costs.elsewhere(("a", "b", "new"), ("a", "b", "new"))
    assert known is not None
    assert known.drift({"new"}, ()) == pytest.approx(0.5)
    assert known.drift({"a", "b"}, ()) == pytest.approx(math.sqrt(0.125))
    assert known.drift({"b"}, {"a", "new"}) == pytest.approx(math.sqrt(0.03))


def test_nodes_that_overflow_are_left_alone() -> None:
    known = Costs({"a": NodeCost(math.inf), "b": NodeCost(0.1)}).elsewhere(("a", "b"), ())
    assert known is not None
    assert known.overflowing == {"a"}
    assert known.drift({"a"}, ()) == pytest.approx(math.sqrt(0.1))


@pytest.mark.parametrize(
    ("costs", "refinable"), [({"a": NodeCost(0.1)}, ()), ({name: NodeCost(0.1) for name in NODES}, NODES), ({}, ())]
)
def test_too_little_that_is_known_proposes_nothing(costs: dict[str, NodeCost], refinable: tuple[str, ...]) -> None:
    assert Costs(costs).elsewhere(NODES, refinable) is None
