"""One of three precisions for every node at once: what is cheapest and holds."""

from __future__ import annotations

import math

import pytest

from optim._engine.repair.choose import Question, choose
from optim._engine.repair.costs import Drift, Precisions
from optim._engine.repair.found import FINER_PRICE, OutOfEvaluations, Repair

NAMES = tuple("abcdefgh")
COARSE = {name: 0.1 * (place + 1) for place, name in enumerate(NAMES)}
WHOLE = math.hypot(*COARSE.values())


def precisions(
    part: float = 0.1, *, refinable: str = "abcdefgh", overflowing: str = "", most: int = 1000
) -> Precisions:
    """Independent errors; those in the precision between have a part of the coarse one's."""

    def guess(converted: frozenset[str], finer: frozenset[str]) -> float:
        return math.hypot(*(COARSE[name] for name in converted), *(COARSE[name] * part for name in finer))

    nodes = tuple(name for name in NAMES if name not in overflowing)
    return Precisions(guess, nodes, frozenset(refinable) & frozenset(nodes), tuple(overflowing), most)


class Measured:
    """Drifts that are a factor off what is expected, counted."""

    def __init__(self, known: Precisions, factor: float = 1.0) -> None:
        self.known, self.factor, self.count = known, factor, 0

    def __call__(self, keep: frozenset[str], finer: frozenset[str]) -> float:
        self.count += 1
        return self.factor * self.known.guess(frozenset(self.known.nodes) - keep - finer, finer)


def find_mix(
    known: Precisions, drift_of: Drift, whole: float, goal: float, evaluations: int, work: dict[str, float]
) -> Repair | None:
    """The choice among three precisions, of which estimates know what they do."""
    nodes = tuple(name for name in (MANY if len(known.nodes) > len(NAMES) else NAMES))
    return choose(Question(nodes, known.refinable, drift_of, whole, work), known, goal, evaluations)


def test_the_precision_between_stands_for_nodes_in_float() -> None:
    known = precisions()
    measured = Measured(known)
    found = find_mix(known, measured, WHOLE, 0.5 * WHOLE, 40, {})
    assert found is not None
    assert found.keep == () != found.finer
    assert found.drift == measured(frozenset(found.keep), frozenset(found.finer)) <= 0.5 * WHOLE
    assert found.evaluations <= 2


def test_a_budget_that_the_precision_between_misses_leaves_some_in_float() -> None:
    found = find_mix(precisions(0.5), Measured(precisions(0.5)), WHOLE, 0.3 * WHOLE, 40, {})
    assert found is not None
    assert found.keep
    assert found.finer
    assert 0 < found.work < 1


def test_a_node_of_much_work_is_left_in_float_last() -> None:
    work = {name: 50.0 if name == "h" else 1.0 for name in NAMES}
    known = precisions(refinable="")
    found = find_mix(known, Measured(known), WHOLE, 0.9 * WHOLE, 40, work)
    assert found is not None
    assert "h" not in found.keep
    assert find_mix(known, Measured(known), WHOLE, 0.9 * WHOLE, 40, {}).keep == ("h",)  # type: ignore[union-attr]


@pytest.mark.parametrize("factor", [0.6, 1.7])
def test_what_is_measured_corrects_what_was_expected(factor: float) -> None:
    known = precisions()
    measured = Measured(known, factor)
    found = find_mix(known, measured, WHOLE, 0.5 * WHOLE, 40, {})
    assert found is not None
    assert found.drift <= 0.5 * WHOLE
    assert measured.count == found.evaluations or found.evaluations < measured.count <= 4


def test_no_node_could_be_one_precision_lower() -> None:
    known = precisions(0.3)
    goal = 0.55 * WHOLE
    found = find_mix(known, Measured(known), WHOLE, goal, 40, {})
    assert found is not None
    keep, finer = frozenset(found.keep), frozenset(found.finer)
    for name in keep | finer:
        lower = finer | {name} if name in keep else finer - {name}
        assert known.guess(frozenset(NAMES) - (keep - {name}) - lower, lower) > goal
    assert len(keep) + FINER_PRICE * len(finer) < 4


def test_overflowing_nodes_stay_in_float() -> None:
    known = precisions(overflowing="c")
    measured = Measured(known)
    found = find_mix(
        known, lambda keep, finer: measured(keep, finer) if "c" in keep else math.inf, math.inf, 0.5 * WHOLE, 40, {}
    )
    assert found is not None
    assert "c" in found.keep


def test_where_the_time_is_over_nothing_is_found() -> None:
    def late(keep: frozenset[str], finer: frozenset[str]) -> float:
        raise OutOfEvaluations

    assert find_mix(precisions(), late, WHOLE, 0.5 * WHOLE, 40, {}) is None


MANY = tuple(f"n{place}" for place in range(1000))
BAD = frozenset({*MANY[400:403], MANY[900]})


def of_many(*, most: int, refinable: frozenset[str] = frozenset(MANY), counted: list[int] | None = None) -> Precisions:
    """A thousand nodes, of which four err by far the most."""

    def guess(converted: frozenset[str], finer: frozenset[str]) -> float:
        if counted is not None:
            counted.append(1)
        errors = [1.0 if name in BAD else 0.01 for name in converted]
        return math.hypot(0.0, *errors, *(0.1 if name in BAD else 0.001 for name in finer))

    return Precisions(guess, MANY, refinable, (), most)


def test_of_many_nodes_segments_around_the_worst_are_chosen_for() -> None:
    counted: list[int] = []
    known, whole = of_many(most=300, counted=counted), math.hypot(*([1.0] * 4 + [0.01] * 996))
    found = find_mix(known, Measured(of_many(most=300)), whole, 0.5, 40, {})
    assert found is not None
    assert frozenset(found.finer) | frozenset(found.keep) >= BAD
    assert len(found.finer) + len(found.keep) < 100
    assert found.drift <= 0.5
    assert len(counted) <= 300
    assert list(found.finer) == sorted(found.finer, key=MANY.index)


def test_nodes_of_a_segment_without_a_precision_between_stay_in_the_pass_s() -> None:
    known, whole = of_many(most=300, refinable=BAD), math.hypot(*([1.0] * 4 + [0.01] * 996))
    found = find_mix(known, Measured(known), whole, 0.5, 40, {})
    assert found is not None
    assert frozenset(found.finer) <= BAD
    assert found.drift <= 0.5


def test_with_too_few_guesses_sets_are_measured() -> None:
    known = of_many(most=1)
    found = find_mix(known, Measured(known), math.hypot(*([1.0] * 4 + [0.01] * 996)), 0.5, 60, {})
    assert found is not None
    assert found.drift <= 0.5


@pytest.mark.parametrize("refinable", ["", "abcdefgh"])
@pytest.mark.parametrize("known", [True, False])
def test_one_way_in_chooses_among_two_precisions_and_three_with_estimates_and_without(
    refinable: str, known: bool
) -> None:
    """With three precisions less is left in float, whether the third was estimated or only measured."""
    costs = precisions(refinable=refinable)
    measured = Measured(costs, 1.2)
    asked = Question(NAMES, frozenset(refinable), measured, 1.2 * WHOLE, {})
    found = choose(asked, costs if known else None, 0.5 * WHOLE, 40)
    assert found is not None
    assert found.drift == measured(frozenset(found.keep), frozenset(found.finer)) <= 0.5 * WHOLE
    assert (found.keep == () != found.finer) if refinable else (found.finer == () != found.keep)


def test_where_nothing_can_be_estimated_what_is_measured_finds_a_choice() -> None:
    misled = Measured(precisions(most=1), 1.0)
    asked = Question(NAMES, frozenset(NAMES), misled, WHOLE, {})
    found = choose(asked, misled.known, 0.5 * WHOLE, 40)
    assert found is not None
    assert found.drift <= 0.5 * WHOLE
