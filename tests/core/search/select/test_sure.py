"""What is proven beside candidates near the budget."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import NO_DRIFT
from optim._engine.search.select.sure import surest
from optim._engine.search.state import Candidate, Measured, Step
from optim.model import Model
from optim.passes import Role, Stage

BUDGET = Budget(0.05, 1e-4)


def candidate(name: str, drift: float, *, lossy: bool = True, recast: Step | None = None) -> Candidate:
    step = Step(Stage.QUANTIZE, name, "plugin", {}, Role.IMPROVE, lossy)
    model = Model(Path(f"{name}.onnx"), name, (), (), {"": 17}, 9)
    return Candidate(model, 100, (step,), drift=replace(NO_DRIFT, relative_l2=drift), recast=recast)


NEAR = [candidate("a", 0.049), candidate("b", 0.03)]


@pytest.mark.parametrize(
    ("others", "taken"),
    [
        ([candidate("c", 0.04), candidate("d", 0.02), candidate("e", 0.001)], ["d"]),
        ([candidate("c", 0.04, lossy=False)], ["c"]),
        ([candidate("c", 0.03)], []),
        ([], []),
    ],
)
def test_the_first_that_takes_half_of_the_budget_or_is_lossless_is_taken(others, taken):
    found = surest(NEAR, [Measured(one, 0.8) for one in others], BUDGET)
    assert [one.digest for one in found] == taken


def test_nothing_is_taken_where_a_finalist_is_sure_itself_or_there_is_none():
    others = [Measured(candidate("c", 0.0), 0.8)]
    assert surest([*NEAR, candidate("sure", 0.02)], others, BUDGET) == []
    assert surest([], others, BUDGET) == []


def test_what_is_timed_against_another_original_is_no_help():
    recast = NEAR[0].steps[0]
    others = [Measured(candidate("c", 0.0, recast=recast), 0.7), Measured(candidate("d", 0.0), 0.8)]
    assert [one.digest for one in surest(NEAR, others, BUDGET)] == ["d"]
