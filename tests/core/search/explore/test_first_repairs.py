"""First guesses beyond the budget: what else their pass proposes comes before a repair."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from boards import board_of

from optim._engine.jobs.offer import Proposal
from optim._engine.search.board import Board
from optim._engine.search.explore.first_looks import FirstLooks, Look
from optim._engine.search.select.repair import Guess
from optim._engine.search.state import Candidate, Step
from optim.model import Model
from optim.passes import Role, Stage

_BUDGET = 0.05


def _candidate(name: str, steps: tuple[Step, ...] = ()) -> Candidate:
    return Candidate(Model(Path(f"{name}.onnx"), name, (), (), {"": 17}, 9), 100, steps)


def _step(options: dict[str, Any]) -> Step:
    return Step(Stage.QUANTIZE, "round", "plugin", options, Role.IMPROVE, lossy=True)


@dataclass
class Expander:
    """Judges by the drift that a proposal's options name, and notes what it is asked to repair."""

    promises: Any
    board: Board
    repaired: list[dict[str, Any]] = field(default_factory=list)
    answer: Any = None

    @property
    def repairs(self) -> Any:
        return SimpleNamespace(
            is_near=lambda *_: True,
            closest=self.closest,
            repair=self.repair,
            leave=lambda one: None,
            aim=lambda _: _BUDGET,
        )

    def judge(self, one: Any) -> Candidate | None:
        options = one.attempt.step.options
        if options["drift"] > _BUDGET:
            return None
        return _candidate(f"at-{options['drift']}", (one.attempt.step,))

    def guess(self, planned: Any, parent: Candidate, proposals: Any) -> Guess:
        return Guess(planned, parent, self.board.open(_step(proposals[0].options), parent), ())

    def tried(self, guesses: Any, seconds: Any) -> list[Any]:
        return [one.after(self.answer) for one in guesses]

    def closest(self, tried: Any) -> Any:
        return min(tried, key=lambda one: one.attempt.step.options["drift"])

    def repair(self, one: Any) -> Candidate:
        self.repaired.append(one.attempt.step.options)
        return _candidate("repaired", (one.attempt.step,))


@pytest.fixture
def found():
    """What holds in place of a guess at drift .1 and 0.4 of the latency, and the options that were repaired."""

    def made(
        *others: dict[str, Any], gains: dict[float, float] | None = None, beside: float = 0.0, **known: Any
    ) -> tuple[FirstLooks, list[Look], Expander]:
        gain = (gains or {}).get
        journal = board_of()
        expander = Expander(SimpleNamespace(gain=lambda step: gain(step.options["drift"], 0.9)), journal)
        answer = SimpleNamespace(
            result=SimpleNamespace(model=_candidate("made").model, interface=None), size_bytes=100, comparisons=()
        )
        time = SimpleNamespace(for_candidate=lambda: 1.0)
        expander.answer = SimpleNamespace(answer=answer)
        repairs = FirstLooks(expander, SimpleNamespace(board=journal), time)
        original = _candidate("original")
        offered = SimpleNamespace(
            name="round", stage=Stage.QUANTIZE, info=SimpleNamespace(name="plugin"), pass_class=SimpleNamespace()
        )
        planned = SimpleNamespace(offered=offered)
        attempt = journal.open(_step({"drift": 0.1, **known}), original)
        attempt.seconds = 5.0
        guess = Look(
            planned,
            original,
            attempt,
            tuple(map(Proposal, others)),
            SimpleNamespace(answer=answer),
            _candidate("beyond"),
            False,
        )
        looks = [guess]
        if beside:
            slow = journal.open(_step({"drift": beside}), original)
            slow.seconds, slow.drift = 50.0, SimpleNamespace(relative_error=beside)
            holds = beside <= _BUDGET
            looks.append(Look(planned, original, slow, (), SimpleNamespace(answer=answer), _candidate("far"), holds))
        return repairs, looks, expander

    def ratio(one: Look) -> float:
        return 0.3 if one.candidate.digest == "far" else 0.4

    def tried(*others: dict[str, Any], **known: Any) -> tuple[list[str], list[Any]]:
        repairs, looks, expander = made(*others, **known)
        results = repairs.repaired(looks, ratio, 1.0)
        return [one.digest for one in results], expander.repaired

    return tried


def test_what_holds_by_itself_is_taken_in_place_of_a_repair(found):
    assert found({"drift": 0.04}) == (["at-0.04"], [])


def test_of_what_is_still_beyond_the_budget_the_nearest_is_repaired(found):
    assert found({"drift": 0.06}, {"drift": 0.2}) == (["repaired"], [{"drift": 0.06}])
    assert found() == (["repaired"], [{"drift": 0.1}])


def test_what_holds_and_is_slower_stands_beside_a_repair(found):
    assert found({"drift": 0.01}, {"drift": 0.06}, gains={0.01: 0.3}) == (["at-0.01", "repaired"], [{"drift": 0.06}])


def test_nothing_is_repaired_that_is_slower_than_what_holds(found):
    assert found(beside=0.02) == ([], [])


@pytest.mark.parametrize(("beside", "repaired"), [(0.06, [{"drift": 0.06}]), (0.8, [])])
def test_what_could_not_keep_its_gain_is_not_repaired_beside_what_holds(found, beside, repaired):
    assert found({"drift": 0.04}, beside=beside)[1] == repaired
