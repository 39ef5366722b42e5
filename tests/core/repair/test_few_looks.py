"""What nodes cost where only some of them are looked at."""

from __future__ import annotations

import math

import pytest

from optim._engine.repair.costs import NodeCost, OwnError, are_too_many, costs_of, together

QUERIES = {f"query{layer}": OwnError(0.02, "MatMul 8x8", 0.1, 1.0) for layer in range(6)}
OUTPUTS = {f"output{layer}": OwnError(0.01, "MatMul 32x8", 0.5, 4.0) for layer in range(6)}
ERRORS = {name: one for pair in zip(QUERIES.items(), OUTPUTS.items(), strict=True) for name, one in pair}


def drift(name: str) -> float:
    """The outputs have little of what queries err, and half of what outputs do."""
    return ERRORS[name].relative * (0.05 if name.startswith("query") else 0.5)


@pytest.mark.parametrize("looks", [2, 5, 12])
def test_a_few_nodes_of_each_kind_tell_what_the_others_cost(looks: int) -> None:
    asked: list[str] = []
    costs = costs_of(ERRORS, lambda name: asked.append(name) or drift(name), lambda count: count < looks)
    assert len(asked) == looks == len(set(asked))
    for name, one in ERRORS.items():
        assert costs[name].coarse == pytest.approx(drift(name) ** 2)
        assert costs[name].between == pytest.approx((drift(name) * (one.finer or 0.0)) ** 2)
        assert costs[name].work == one.work


def test_with_no_look_they_are_right_beside_each_other() -> None:
    costs = costs_of(QUERIES, drift, lambda count: False)
    assert len({one.coarse for one in costs.values()}) == 1


def test_one_that_overflows_is_not_looked_at_and_one_without_a_precision_between_has_none() -> None:
    errors = {"bad": OwnError(math.inf, "a", 0.1), "good": OwnError(0.1, "a")}
    costs = costs_of(errors, lambda name: {"good": 0.3}[name], lambda count: True)
    assert math.isinf(costs["bad"].coarse)
    assert costs["bad"].between is None
    assert costs["good"].coarse == pytest.approx(0.09)
    assert costs["good"].between is None


def test_a_thousand_nodes_are_too_many_for_a_hundred_looks() -> None:
    assert are_too_many(range(1000), 100)  # type: ignore[arg-type]
    assert not are_too_many(ERRORS, 3)


def test_costs_of_the_precision_between_come_to_what_all_of_it_was_measured_to_drift() -> None:
    costs = {"a": NodeCost(0.4, 0.01), "b": NodeCost(0.4, 0.03), "c": NodeCost(0.01)}
    found = together(costs, 0.3)
    assert (found["a"].between, found["b"].between) == (pytest.approx(0.02), pytest.approx(0.06))
    assert found["c"] == costs["c"]
    assert together(costs, math.inf) == costs
