"""What is proven beside candidates near the budget."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import NO_DRIFT
from optim._engine.search.select.selection import Hope, best_beside, chance_of, expected_gain
from optim._engine.search.state import Candidate, Step
from optim.model import Model
from optim.passes import Role, Stage

BUDGET = Budget(0.03, 1e-4)


def candidate(name: str, drift: float) -> Candidate:
    step = Step(Stage.QUANTIZE, name, "plugin", {}, Role.IMPROVE, lossy=drift > 0)
    model = Model(Path(f"{name[0]}.onnx"), name, (), (), {"": 17}, 9)
    return Candidate(model, 100, (step,), drift=replace(NO_DRIFT, relative_error=drift))


def hope(name: str, drift: float, ratio: float) -> Hope:
    one = candidate(name, drift)
    return Hope(one, -math.log(ratio), chance_of(one, BUDGET))


def beside(chosen: list[Hope], *others: Hope) -> list[str]:
    return [one.digest for one in best_beside(chosen, others)]


def test_what_is_lossless_holds_and_a_drift_near_the_budget_may_not():
    assert chance_of(candidate("a", 0.0), BUDGET) == 1.0
    chances = [chance_of(candidate("a", 0.03 * share), BUDGET) for share in (0.1, 0.5, 0.7, 0.9, 1.0, 2.0)]
    assert chances == sorted(chances, reverse=True)
    assert chances[1] > 0.99
    assert chances[-2:] == [0.0, 0.0]


def test_what_lies_between_is_taken_where_it_is_likely_to_hold_and_much_faster():
    """Weights of GPT2 in blocks of 128 and of 32, beside its graph without loss."""
    near, between, lossless = hope("b128", 0.0299, 0.34), hope("c32", 0.0217, 0.345), hope("l", 0.0, 0.9)
    assert beside([near], lossless, between) == ["c32"]
    assert beside([near], lossless) == ["l"]


def test_what_is_as_near_the_budget_is_no_help():
    """BERT-base in 8 bits, whose drift on all samples was 1.7 times that on few."""
    near, next_to_it, far = hope("a", 0.0285, 0.30), hope("b", 0.0282, 0.31), hope("c", 0.012, 0.6)
    assert beside([near], next_to_it, far) == ["c"]


def test_nothing_is_taken_where_it_raises_the_expected_gain_by_little():
    assert beside([hope("a", 0.01, 0.5)], hope("b", 0.0, 0.9)) == []
    assert beside([hope("a", 0.0299, 0.5), hope("b", 0.01, 0.6)], hope("c", 0.0, 0.9)) == []
    assert beside([hope("a", 0.0299, 0.5)], hope("b", 0.0, 0.99)) == []
    assert beside([], hope("b", 0.0, 0.5)) == []
    assert beside([hope("a", 0.0299, 0.5)]) == []


def test_another_setting_of_the_same_graph_holds_where_that_does():
    near = hope("a", 0.0285, 0.5)
    assert expected_gain([near, hope("a-set", 0.0285, 0.51)]) == pytest.approx(expected_gain([near]))
