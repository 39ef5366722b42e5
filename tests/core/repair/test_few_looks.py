"""What nodes cost where only some of them are looked at."""

from __future__ import annotations

import math

import pytest

from optim._engine.repair.costs import Costs, NodeCost, OwnError, costs_of

QUERIES = {f"query{layer}": OwnError(0.02, "MatMul 8x8", 0.1, 1.0) for layer in range(6)}
OUTPUTS = {f"output{layer}": OwnError(0.01, "MatMul 32x8", 0.5, 4.0) for layer in range(6)}
ERRORS = {name: one for pair in zip(QUERIES.items(), OUTPUTS.items(), strict=True) for name, one in pair}


def drift(name: str) -> float:
    """The outputs have little of what queries err, and half of what outputs do."""
    return ERRORS[name].relative * (0.05 if name.startswith("query") else 0.5)


@pytest.mark.parametrize("looks", [2, 5, 12])
def test_a_few_nodes_of_each_kind_tell_what_the_others_cost(looks: int) -> None:
    asked: list[str] = []
    found = costs_of(ERRORS, 0.0, lambda name: asked.append(name) or drift(name), lambda count: count < looks)
    costs = found.of
    assert len(asked) == looks == len(set(asked))
    for name, one in ERRORS.items():
        assert costs[name].coarse == pytest.approx(drift(name) ** 2)
        assert costs[name].between == pytest.approx((drift(name) * (one.finer or 0.0)) ** 2)
        assert costs[name].work == one.work


def test_with_no_look_they_are_right_beside_each_other() -> None:
    costs = costs_of(QUERIES, 0.0, drift, lambda count: False).of
    assert len({one.coarse for one in costs.values()}) == 1


def test_one_that_overflows_is_not_looked_at_and_one_without_a_precision_between_has_none() -> None:
    errors = {"bad": OwnError(math.inf, "a", 0.1), "good": OwnError(0.1, "a")}
    costs = costs_of(errors, 0.0, lambda name: {"good": 0.3}[name], lambda count: True).of
    assert math.isinf(costs["bad"].coarse)
    assert costs["bad"].between is None
    assert costs["good"].coarse == pytest.approx(0.09)
    assert costs["good"].between is None


def test_what_the_model_drifts_before_the_pass_is_no_cost_of_a_node() -> None:
    found = costs_of({"a": OwnError(0.1), "b": OwnError(0.1)}, 0.4, lambda name: 0.5, lambda count: True)
    assert found.of["a"].coarse == pytest.approx(0.09)
    assert found.drift({"a", "b"}, ()) == 0.4
    assert found.drift({"a"}, ()) == pytest.approx(0.5)


def test_costs_of_the_precision_between_come_to_what_all_of_it_was_measured_to_drift() -> None:
    costs = Costs({"a": NodeCost(0.4, 0.01), "b": NodeCost(0.4, 0.03), "c": NodeCost(0.01)})
    found = costs.together(0.3).of
    assert (found["a"].between, found["b"].between) == (pytest.approx(0.02), pytest.approx(0.06))
    assert found["c"] == costs.of["c"]
    assert costs.together(math.inf) == costs
