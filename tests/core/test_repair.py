"""The search for what a lossy pass must leave alone."""

from __future__ import annotations

import math

from optim.gate.repair import find_keep

NODES = [f"n{i}" for i in range(24)]


def drift_model(cost: dict[str, float]):
    """Independent roundings: their squares add up; counts how often it is asked."""
    asked: list[frozenset[str]] = []

    def drift_of(keep: frozenset[str]) -> float:
        asked.append(keep)
        return math.sqrt(sum(c**2 for name, c in cost.items() if name not in keep))

    return drift_of, asked


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


def test_keeping_everything_is_the_last_resort_and_is_exact():
    drift_of, _ = drift_model(dict.fromkeys(NODES, 1.0))
    found = find_keep(NODES, drift_of, whole=drift_of(frozenset()), limit=1e-6, evaluations=60)
    assert found is not None
    assert set(found.keep) == set(NODES)
    assert found.drift == 0
