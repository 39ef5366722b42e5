"""A repair gives nodes a precision between, as far as the budget allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from optim._engine.repair.choose import refine
from optim._engine.repair.found import OutOfEvaluations, Repair

NAMES = tuple("abcdefgh")
COARSE = {name: 0.1 * (place + 1) for place, name in enumerate(NAMES)}
FOUND = Repair(NAMES[4:], drift=0.548, evaluations=7, work=0.5)


def drifts(asked: list[tuple[Sequence[str], Sequence[str]]], part: float) -> Callable[..., float]:
    """Independent errors; those in the middle precision have a part of the coarse one's."""

    def drift_of(keep: Sequence[str], finer: Sequence[str]) -> float:
        asked.append((keep, finer))
        errors = {**COARSE, **{name: COARSE[name] * part for name in finer}, **dict.fromkeys(keep, 0.0)}
        return math.hypot(*errors.values())

    return drift_of


def test_all_go_where_that_holds() -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []
    found = refine(FOUND, NAMES, drifts(asked, 0.1), 0.6, {})
    assert (found.keep, found.finer, found.work) == ((), NAMES[4:], 0.0)
    assert (len(asked), found.evaluations) == (1, 8)
    assert 0.548 < found.drift <= 0.6
    assert "0 nodes left in float, 0% of the work, 4 in a finer precision" in found.text("in float")


def test_as_many_as_hold_those_of_most_work_first() -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []
    work = {"e": 9.0, "f": 9.0, "g": 1.0, "h": 1.0}
    found = refine(FOUND, NAMES, drifts(asked, 0.6), 0.76, work)
    assert asked[1] == (("g", "h"), ("e", "f"))
    assert {"e", "f"} >= set(found.finer) != set()
    assert math.isclose(found.work, 0.5 * sum(work[name] for name in found.keep) / 20)
    assert drifts([], 0.6)(found.keep, found.finer) == found.drift <= 0.76


def test_what_does_not_hold_is_left_as_it_was() -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []
    found = refine(FOUND, NAMES, drifts(asked, 1.0), 0.55, {})
    assert (found.keep, found.finer, found.drift, found.work) == (FOUND.keep, (), FOUND.drift, FOUND.work)
    assert len(asked) == 6


def test_nodes_without_such_a_precision_stay_kept() -> None:
    asked: list[tuple[Sequence[str], Sequence[str]]] = []
    assert refine(FOUND, (), drifts(asked, 0.1), 0.6, {}) == FOUND
    assert not asked
    assert refine(FOUND, {"h"}, drifts(asked, 0.1), 0.6, {}).finer == ("h",)


def test_it_ends_with_the_time() -> None:
    def out_of_time(keep: Sequence[str], finer: Sequence[str]) -> float:
        raise OutOfEvaluations

    assert refine(FOUND, NAMES, out_of_time, 1.0, {}) == FOUND
