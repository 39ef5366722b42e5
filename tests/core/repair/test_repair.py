"""The search for what a lossy pass must leave alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from optim._engine.repair.choose import MeasuredSet, Question, Repair, choose, find_units, seams, why_none
from optim._engine.repair.costs import Costs, NodeCost

NODES = [f"n{i}" for i in range(24)]


def drift_model(cost: dict[str, float]):
    """Independent roundings: their squares add up; counts how often it is asked."""
    asked: list[frozenset[str]] = []

    def drift_of(keep: frozenset[str]) -> float:
        asked.append(keep)
        return math.sqrt(sum(c**2 for name, c in cost.items() if name not in keep))

    return drift_of, asked


def find_keep(
    nodes: Sequence[str],
    drift_of: Callable[[frozenset[str]], float],
    whole: float,
    limit: float,
    evaluations: int,
    *,
    estimate: Costs | None = None,
    **asked: Any,
) -> Repair | None:
    """The choice among two precisions."""
    question = Question(nodes, frozenset(), lambda keep, _: drift_of(keep), whole, **asked)
    return choose(question, estimate, limit, evaluations)


def test_the_one_node_that_breaks_the_budget_is_found():
    cost = dict.fromkeys(NODES, 0.001) | {"n17": 0.2}
    drift_of, _ = drift_model(cost)
    found = find_keep(NODES, drift_of, whole=drift_of(frozenset()), limit=0.05, evaluations=40)
    assert found is not None
    assert found.keep == ("n17",)
    assert found.drift <= 0.05
    assert found.evaluations <= 40


def test_two_costly_nodes_far_apart_are_found():
    cost = dict.fromkeys(NODES, 0.002) | {"n3": 0.1, "n20": 0.15}
    drift_of, _ = drift_model(cost)
    found = find_keep(NODES, drift_of, whole=drift_of(frozenset()), limit=0.05, evaluations=40)
    assert found is not None
    assert set(found.keep) == {"n3", "n20"}


def test_what_is_kept_is_really_within_the_limit():
    cost = {name: 0.01 + 0.002 * i for i, name in enumerate(NODES)}
    drift_of, _ = drift_model(cost)
    found = find_keep(NODES, drift_of, whole=drift_of(frozenset()), limit=0.1, evaluations=60)
    assert found is not None
    assert drift_of(frozenset(found.keep)) <= 0.1
    assert 0 < len(found.keep) < len(NODES)


def test_the_evaluation_budget_is_kept():
    drift_of, asked = drift_model(dict.fromkeys(NODES, 0.1))
    whole = drift_of(frozenset())
    asked.clear()
    find_keep(NODES, drift_of, whole=whole, limit=0.01, evaluations=7)
    assert len(asked) <= 7


def test_nothing_is_claimed_where_nothing_was_found_in_time():
    drift_of, _ = drift_model(dict.fromkeys(NODES, 0.1))
    assert find_keep(NODES, drift_of, whole=0.49, limit=0.001, evaluations=3) is None


def test_leaving_everything_alone_is_no_repair():
    drift_of, _ = drift_model(dict.fromkeys(NODES, 1.0))
    assert find_keep(NODES, drift_of, whole=drift_of(frozenset()), limit=1e-6, evaluations=60) is None


def test_a_model_that_was_too_far_off_before_costs_one_round_of_probes_at_most():
    drift_of, asked = drift_model(dict.fromkeys(NODES, 0.1))
    asked.clear()
    assert find_keep(NODES, lambda keep: drift_of(keep) + 1.0, whole=1.5, limit=0.1, evaluations=60) is None
    assert len(asked) <= 31


def estimate_for(cost: dict[str, float], off_by: float = 1.0, ground: float = 0.0, overflowing: str = "") -> Costs:
    """What a replay says: the same sum of squares, wrong by a factor."""
    known = {name: NodeCost((off_by * cost[name]) ** 2) for name in NODES if name in cost}
    return Costs({**known, **{name: NodeCost(math.inf) for name in overflowing.split()}}, ground)


def test_costs_of_a_model_that_was_too_far_off_before_are_held_against_one_measurement():
    cost = dict.fromkeys(NODES, 0.1)
    drift_of, asked = drift_model(cost)
    asked.clear()
    estimate = estimate_for(cost, ground=1.0)
    found = find_keep(NODES, lambda keep: drift_of(keep) + 1.0, 1.5, limit=0.1, evaluations=60, estimate=estimate)
    assert found is None
    assert asked[-1:] == [frozenset(NODES)]
    assert len(asked) <= 2


def test_why_there_is_no_repair_is_said_from_what_was_measured():
    sets = [MeasuredSet(40, 52, 0.9), MeasuredSet(50, 52, 0.42), MeasuredSet(52, 52, 0.0)]
    assert why_none(sets, 0.4, "in float", 7) == (
        "the nearest of 2 sets of nodes measured in 7 s leaves 50 of 52 nodes in float and drifts 0.42; "
        "with all nodes left in float the drift is 0"
    )
    held = MeasuredSet(51, 52, 0.3)
    assert "leaves 51 of 52 nodes in float, nearly all of the work, and drifts 0.3" in why_none(
        [*sets, held], 0.4, "in float", 7
    )
    far = [*sets[:2], MeasuredSet(52, 52, 0.5)]
    assert why_none(far, 0.4, "in float", 7) == "even with all nodes left in float the drift is 0.5"
    assert why_none([], 0.4, "in float", 7) == "no set of nodes to leave in float was measured in 7 s"
    only = "it changes one node, and a repair would leave that in float"
    assert why_none([MeasuredSet(1, 1, 0.0)], 0.4, "in float", 7) == only


@pytest.mark.parametrize("off_by", [0.5, 1.0, 2.0])
def test_an_estimate_needs_few_evaluations_even_where_it_is_wrong_by_a_factor(off_by: float):
    cost = {name: 0.01 + 0.002 * ((7 * i) % 24) for i, name in enumerate(NODES)}
    drift_of, asked = drift_model(cost)
    whole = drift_of(frozenset())
    asked.clear()
    found = find_keep(NODES, drift_of, whole, limit=0.1, evaluations=40, estimate=estimate_for(cost, off_by))
    least = min(k for k in range(25) if math.sqrt(sum(sorted(c**2 for c in cost.values())[: 24 - k])) <= 0.1)
    assert found is not None
    assert len(found.keep) == least
    assert found.drift <= 0.1
    assert found.evaluations == len(asked) <= 8


def test_what_an_estimate_takes_for_costly_is_given_back_where_there_is_time_for_all_evaluations():
    cost = {name: 0.001 if place % 3 == 0 else 0.1 for place, name in enumerate(NODES)}
    drift_of, _ = drift_model(cost)
    whole, misled = drift_of(frozenset()), dict.fromkeys(NODES, 0.1)
    quick, thorough = (
        find_keep(
            NODES, drift_of, whole, limit=0.15, evaluations=60, estimate=estimate_for(misled), exhaustive=exhaustive
        )
        for exhaustive in (False, True)
    )
    assert len(quick.keep) > len(thorough.keep) == 14
    assert thorough.drift <= 0.15
    assert quick.evaluations < thorough.evaluations <= 60


def test_nodes_that_overflow_are_left_alone_at_once():
    cost = dict.fromkeys(NODES, 0.001)
    overflowing = {"n4", "n5"}
    estimate = estimate_for({n: c for n, c in cost.items() if n not in overflowing}, overflowing="n4 n5")

    def drift_of(keep: frozenset[str]) -> float:
        return math.inf if overflowing - keep else 0.001 * math.sqrt(24 - len(keep))

    found = find_keep(NODES, drift_of, math.inf, limit=0.05, evaluations=40, estimate=estimate)
    assert found is not None
    assert set(found.keep) == overflowing
    assert found.evaluations <= 4


def test_what_is_said_to_overflow_and_does_not_is_given_back():
    estimate = estimate_for(dict.fromkeys(NODES[2:], 0.001), overflowing="n0 n1")

    def drift_of(keep: frozenset[str]) -> float:
        return math.inf if "n1" not in keep else 0.001

    found = find_keep(NODES, drift_of, math.inf, limit=0.05, evaluations=40, estimate=estimate)
    assert found is not None
    assert found.keep == ("n1",)


def test_an_estimate_that_misses_the_node_is_forgotten():
    cost = dict.fromkeys(NODES, 0.001)

    def drift_of(keep: frozenset[str]) -> float:
        return 0.5 if "n9" not in keep else 0.004

    found = find_keep(NODES, drift_of, 0.5, limit=0.05, evaluations=60, estimate=estimate_for(cost))
    assert found is not None
    assert "n9" in found.keep
    assert len(found.keep) <= 2


def test_infinity_nobody_explains_is_found_by_halving():
    def drift_of(keep: frozenset[str]) -> float:
        return math.inf if "n13" not in keep else 0.001

    found = find_keep(NODES, drift_of, math.inf, 0.05, 60, estimate=estimate_for(dict.fromkeys(NODES, 0.001)))
    assert found is not None
    assert found.keep == ("n13",)


def test_of_two_nodes_that_cost_alike_the_one_with_less_work_is_left_in_float():
    cost = dict.fromkeys(NODES, 0.001) | {"n3": 0.1, "n20": 0.1}
    work = dict.fromkeys(NODES, 1.0) | {"n3": 50.0}
    drift_of, _ = drift_model(cost)
    found = find_keep(
        NODES, drift_of, drift_of(frozenset()), limit=0.105, evaluations=40, estimate=estimate_for(cost), work=work
    )
    assert found is not None
    assert found.keep == ("n20",)
    assert found.work == pytest.approx(1 / 73, rel=0.5)


def test_groups_are_halved_where_the_cost_is():
    cost = dict.fromkeys(NODES, 0.001) | {"n17": 0.2}
    drift_of, asked = drift_model(cost)
    units = find_units(NODES, lambda converted: drift_of(frozenset(NODES) - converted), groups=4, probes=14)
    assert [name for unit in units for name in unit.names] == NODES
    assert max(units, key=lambda unit: unit.cost).names == ("n17",)
    assert len(asked) <= 14


def test_nodes_that_hand_on_what_they_make_are_left_alone_in_one_stretch():
    """Each second node costs a little more: by cost alone these would be left alone, and precision changes at each."""
    cost = {name: 0.011 if i % 2 else 0.01 for i, name in enumerate(NODES)} | {"n2": 0.05}
    drift_of, _ = drift_model(cost)
    whole, estimate = drift_of(frozenset()), estimate_for(cost)
    apart, chained = (
        find_keep(NODES, drift_of, whole, limit=0.037, evaluations=40, estimate=estimate, chained=names)
        for names in ((), tuple(NODES))
    )
    assert apart is not None
    assert chained is not None
    assert max(drift_of(frozenset(one.keep)) for one in (apart, chained)) <= 0.037
    assert seams(NODES, apart.keep) > 8
    assert seams(NODES, chained.keep) <= 4
    assert len(chained.keep) <= len(apart.keep) + 2


def test_no_stretch_is_left_alone_where_two_nodes_far_apart_do():
    cost = dict.fromkeys(NODES, 0.002) | {"n3": 0.1, "n20": 0.15}
    drift_of, _ = drift_model(cost)
    estimate, whole = estimate_for(cost), drift_of(frozenset())
    found = find_keep(NODES, drift_of, whole, 0.05, 40, estimate=estimate, chained=tuple(NODES))
    assert found is not None
    assert set(found.keep) == {"n3", "n20"}


def test_changes_of_precision_are_counted_along_the_nodes_that_hand_on():
    assert [seams("abcd", kept) for kept in ("", "a", "b", "bc", "bd", "abcd")] == [0, 1, 2, 2, 3, 0]
