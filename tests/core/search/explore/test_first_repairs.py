"""First guesses beyond the budget: what else their pass proposes comes before a repair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from boards import board_of

from optim._engine.jobs.offer import Proposal
from optim._engine.search.explore.first_looks import FirstLooks, Look
from optim._engine.search.select.repair import Guess
from optim._engine.search.state import Candidate, Step
from optim.model import Model
from optim.passes import PassResult, Role, Stage

_BUDGET = 0.05
_ORIGINAL = Candidate(Model(Path("original.onnx"), "original", (), (), {"": 17}, 9), 100)


def _made(name: str, *steps: Step) -> Candidate:
    return replace(_ORIGINAL, model=replace(_ORIGINAL.model, digest=name), steps=steps)


def _drift(one: Guess) -> float:
    return one.attempt.step.options["drift"]


@pytest.fixture
def found():
    """What holds in place of a guess at drift .1 and 0.4 of the latency, and the drifts of what was repaired.

    ``others`` are drifts of what else the pass proposes, ``gains`` are by drift, ``beside`` is that of a slow guess,
    and ``elsewhere`` are drifts of what broke the budget on another chain.
    """

    def tried(
        *others: float, gains: dict[float, float] | None = None, beside: float = 0.0, elsewhere: tuple[float, ...] = ()
    ):
        board, repaired = board_of(), []
        answer = SimpleNamespace(result=PassResult(_made("made").model, True), size_bytes=100, comparisons=())
        planned, answered = SimpleNamespace(offered=None), SimpleNamespace(answer=answer)

        def row(drift):
            return board.open(Step(Stage.QUANTIZE, "round", "plugin", {"drift": drift}, Role.IMPROVE, True), _ORIGINAL)

        def judge(one):
            return _made(f"at-{_drift(one)}", one.attempt.step) if _drift(one) <= _BUDGET else None

        def repair(one):
            repaired.append(_drift(one))
            return _made("repaired", one.attempt.step)

        repairs = SimpleNamespace(
            is_near=lambda *_: True,
            closest=lambda tried: min(tried, key=_drift),
            repair=repair,
            leave=lambda one: None,
            aim=lambda _: _BUDGET,
        )
        expander = SimpleNamespace(
            promises=SimpleNamespace(gain=lambda step: (gains or {}).get(step.options["drift"], 0.9)),
            repairs=repairs,
            judge=judge,
            guess=lambda planned, parent, some: Guess(planned, parent, row(some[0].options["drift"]), ()),
            unbroken=lambda guesses: [one for one in guesses if _drift(one) not in elsewhere],
            tried=lambda guesses, seconds: [replace(one, tried=answered) for one in guesses],
        )
        looks = FirstLooks(expander, SimpleNamespace(board=board, time=SimpleNamespace(for_candidate=lambda: 1.0)))
        first, proposals = row(0.1), tuple(Proposal({"drift": drift}) for drift in others)
        first.seconds = 5.0
        looked = [Look(planned, _ORIGINAL, first, proposals, answered, candidate=_made("beyond"), holds=False)]
        if beside:
            slow = row(beside)
            slow.seconds, slow.drift = 50.0, SimpleNamespace(relative_error=beside)
            looked.append(Look(planned, _ORIGINAL, slow, (), answered, candidate=_made("far"), holds=beside <= _BUDGET))
        for one in looked:
            board[one.candidate].hoped = 0.3 if one.candidate.digest == "far" else 0.4
        results = looks.repaired(looked, 1.0)
        return [one.digest for one in results], repaired

    return tried


@pytest.mark.parametrize(
    ("others", "options", "held", "repaired"),
    [
        ([0.04], {}, ["at-0.04"], []),  # what holds by itself
        ([0.06, 0.2], {}, ["repaired"], [0.06]),  # the nearest of what is still beyond the budget
        ([], {}, ["repaired"], [0.1]),
        ([0.01, 0.06], {"gains": {0.01: 0.3}}, ["at-0.01", "repaired"], [0.06]),  # what holds is slower
        ([], {"beside": 0.02}, [], []),  # what holds is faster
        ([0.04], {"beside": 0.06}, ["at-0.04", "repaired"], [0.06]),
        ([0.06], {"gains": {0.06: 0.0}}, ["repaired"], [0.1]),  # the nearest is no faster than the original
        ([0.06, 0.2], {"elsewhere": (0.06,)}, [], []),  # a nearer one was repaired on another chain, or left
    ],
)
def test_other_proposals_come_before_a_repair_and_only_what_keeps_its_gain_is_repaired(
    found, others, options, held, repaired
):
    assert found(*others, **options) == (held, repaired)
