"""Which points stand on the front, which is picked by which word, and which is nearest to a budget that was missed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from boards import board_of, timed_at

from optim._engine.gate.budget import Budget, MaxLoss, TaskFigure
from optim._engine.gate.drift import Drift
from optim._engine.runs.pick import choose
from optim._engine.search.front import worth_proving
from optim._engine.search.state import Candidate, Step
from optim.errors import OptimError
from optim.model import Model
from optim.passes import Role, Stage

BUDGET = Budget(0.1, 1e-4)


def measured(name, ratio=1.0, size=100, drift=0.0, *, steps=("a",), task=None):
    chain = tuple(Step(Stage.FUSE, step, "p", {}, Role.IMPROVE, lossy=drift > 0) for step in steps)
    model = Model(Path(f"{name}.onnx"), name, (), (), {"": 17}, 9)
    return timed_at(Candidate(model, size, chain, (), Drift(drift, drift, 1.0), task), ratio)


def archive(*items, budget=BUDGET, required=()):
    made = board_of(budget, required=required)
    for item in items:
        made.proven(item)
    return made


FAST = measured("fast", 0.3, 60, 0.09)
SMALL = measured("small", 0.5, 30, 0.05)
EXACT = measured("exact", 0.8, 100)
BEATEN = measured("beaten", 0.6, 70, 0.09)


def names(points):
    return [point.candidate.model.digest for point in points]


def test_the_front_is_numbered_from_the_fastest_and_what_is_beaten_has_no_number():
    points = archive(BEATEN, EXACT, SMALL, FAST).points()
    assert names(points) == ["fast", "small", "exact", "beaten"]
    assert [point.number for point in points] == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("word", "name"),
    [("fastest", "fast"), ("smallest", "small"), ("most-accurate", "exact"), ("1", "fast"), ("3", "exact")],
)
def test_a_word_or_a_number_picks_a_point(word, name):
    assert names([choose(archive(BEATEN, EXACT, SMALL, FAST).points(), word)]) == [name]


@pytest.mark.parametrize("word", ["0", "4", "quickest"])
def test_a_point_that_is_not_there_is_an_error_that_names_those_that_are(word):
    with pytest.raises(OptimError) as caught:
        choose(archive(FAST).points(), word)
    assert caught.value.reference == "unknown-point"
    assert "fastest" in caught.value.cause


def test_with_nothing_on_the_front_there_is_nothing_to_pick():
    made = board_of(BUDGET)
    made.explored([FAST])
    with pytest.raises(OptimError) as caught:
        choose(made.points(), "fastest")
    assert caught.value.reference == "no-points"


def test_what_is_delivered_has_a_number_even_where_another_is_in_front_of_it():
    points = archive(FAST, BEATEN).points(BEATEN.candidate)
    assert [(point.candidate.model.digest, point.number) for point in points] == [("fast", 1), ("beaten", 2)]


def test_what_is_ahead_of_the_delivered_by_noise_has_no_number():
    delivered = timed_at(measured("delivered", 0.5, 60, 0.09).candidate, 0.50, 0.48, 0.52)
    faster = timed_at(measured("faster", 0.48, 60, 0.09, steps=("a", "b")).candidate, 0.48, 0.46, 0.50)
    clearly = timed_at(faster.candidate, 0.3, 0.29, 0.31)
    smaller = replace(faster, candidate=replace(faster.candidate, size_bytes=50))
    numbers = [
        {point.digest: point.number for point in archive(other, delivered).points(delivered.candidate)}
        for other in (faster, clearly, smaller)
    ]
    assert numbers == [{"delivered": 1, "faster": 0}, *[{"faster": 1, "delivered": 2}] * 2]


def test_of_two_that_are_the_same_within_noise_the_shorter_stays():
    longer = measured("longer", 0.299, 60, 0.09, steps=("a", "b"))
    points = archive(longer, FAST).points()
    assert [(point.candidate.model.digest, point.number) for point in points] == [("fast", 1), ("longer", 0)]


def test_with_a_metric_its_loss_is_what_accuracy_means():
    better = measured("better", 0.5, 60, 0.09, task=TaskFigure(0.9, 0.9, 0.0, 0.0, 10))
    worse = measured("worse", 0.4, 60, 0.01, task=TaskFigure(0.8, 0.9, 0.1, 0.0, 10))
    assert names([choose(archive(better, worse).points(), "most-accurate")]) == ["better"]


def test_explored_points_are_proven_where_the_front_would_be_without_them():
    made = board_of(BUDGET)
    made.explored([FAST, SMALL, EXACT, BEATEN])
    assert [candidate.model.digest for candidate in worth_proving(made.held(), [FAST.candidate], 3)] == [
        "small",
        "exact",
    ]
    assert [candidate.model.digest for candidate in worth_proving(made.held(), [FAST.candidate], 1)] == ["small"]
    assert worth_proving(made.held(), [FAST.candidate], 0) == []


def test_chains_without_what_was_asked_for_by_name_are_not_proven():
    made = board_of(BUDGET, required=["wished"])
    made.explored([SMALL, replace(EXACT, candidate=measured("x", steps=("wished",)).candidate)])
    assert [candidate.model.digest for candidate in worth_proving(made.held(), [], 3)] == ["x"]


def test_the_nearest_is_beyond_the_budget_by_least_and_a_loss_counts_too():
    made = board_of(Budget(0.1, 1e-4, MaxLoss(0.01, relative=False)))
    far = measured("far", drift=0.5).candidate
    near = measured("near", drift=0.15, task=TaskFigure(0.89, 0.9, 0.012, 0.0, 10)).candidate
    lost = measured("lost", drift=0.05, task=TaskFigure(0.7, 0.9, 0.2, 0.0, 10)).candidate
    broken = measured("broken", drift=float("inf")).candidate
    for candidate in (far, near, lost, broken):
        made.judged(candidate, "beyond the budget")
    assert made.beyond(1) == [near]
    assert not made.lossy_held
    made.judged(near, "")
    assert made.lossy_held


def test_what_is_kept_aside_is_proven_and_never_on_the_front():
    made = archive(EXACT)
    made.aside(FAST)
    points = made.points()
    assert [(point.candidate.model.digest, point.number, point.within) for point in points] == [
        ("exact", 1, True),
        ("fast", 0, False),
    ]
