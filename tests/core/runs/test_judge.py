"""What a search without a winner comes to, given figures of what is nearest to the budget: nothing is run or timed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from all_goals import GOALS
from boards import board_of, timed_at
from deadlines import search_of

from optim._engine.gate.budget import Budget, Objection
from optim._engine.gate.drift import Drift
from optim._engine.reports.outcome import RunStatus, exit_status
from optim._engine.runs import judge
from optim._engine.search.deadline import Deadline
from optim._engine.search.explore.beam import NamedPassError, untried
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.racing import Races
from optim._engine.search.objective import Objective
from optim._engine.search.rows import OUT_OF_TIME
from optim._engine.search.select.selection import Selection
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import ITSELF, Candidate, Measured, Step, StepStatus
from optim._engine.search.targets import contest
from optim.errors import ExitStatus
from optim.model import Model
from optim.passes import Role, Stage

BEYOND = Objection("drift 0.02 at output 'y' is beyond the budget (0.01)", beyond_budget=True)
ROUND = Step(Stage.QUANTIZE, "round", "plugin", {}, Role.IMPROVE, lossy=True)


def model(name):
    return Model(Path(f"{name}.onnx"), name, (), (), {"": 17}, 9)


ORIGINAL = Candidate(model("original"), 100)
BROKEN = Candidate(model("rounded"), 60, (ROUND,), drift=Drift(0.02, 0.02, 1.0))


@pytest.fixture
def verdict(monkeypatch):
    """The verdict where all that was tried broke the budget, or for another reason, and that has these figures."""

    def judged(*figures, objection=BEYOND, runs=True, late=(), tried=False, measured=None, **changes):
        settings = RunSettings(Path("m.onnx"), **{"max_drift": 0.01, **changes})
        bench = SimpleNamespace(
            settings=settings,
            goal=GOALS[settings.goal],
            objective=Objective(GOALS[settings.goal], timed=True),
            target=SimpleNamespace(timed=True, requires=(), exact=True),
            original=ORIGINAL,
            prepared=SimpleNamespace(open_s=0.0, run_s=0.0, timed=(0,), inexact=None),
            device_free_bytes=lambda: None,
            entry=None,
            deadline=SimpleNamespace(left=0.0, note=lambda text: None, try_s=80.0, announced_s=300.0),
            say=lambda text: None,
            teller=None,
            budget=Budget(0.01, 1e-4),
        )
        forced = [SimpleNamespace(name=named.name) for named in settings.named]

        class Searched:
            def __init__(self, bench, plan):
                self.board = board_of(bench.budget, bench.goal, original=ORIGINAL)
                self.start = Measured(bench.original, ITSELF)
                self.time = search_of(10.0, 300.0)
                self.clock = Clock(Races(bench), self.board, self.time)
                self.recalled = lambda targets: []
                self.recall = SimpleNamespace(stands=lambda winner: False, keep=lambda winner: None)

            def selection(self):
                chains = SimpleNamespace(only_makes_way=lambda candidate: True)
                return Selection(self.clock, chains, SimpleNamespace(judge=list))

            def look(self):
                return 1.0

            def search(self):
                row = self.board.open(ROUND, ORIGINAL)
                row.drop(objection)
                row.drift = BROKEN.drift if tried else None
                self.board.judged(BROKEN, objection)
                for step in late:
                    self.board.open(step, ORIGINAL).run_out(OUT_OF_TIME)
                if forced:
                    raise NamedPassError("pass-did-not-hold", "round was asked for, but it failed", objection.text)
                return [self.start]

        def nearest(self, candidates):
            assert candidates == [BROKEN]
            return timed_at(BROKEN, *figures) if runs else None

        monkeypatch.setattr(contest, "Beam", Searched)
        monkeypatch.setattr(Selection, "measure_nearest", nearest)

        def measure(self, candidates):
            (measured if measured is not None else []).extend(candidates)
            return [Measured(candidates[0], ITSELF)]

        monkeypatch.setattr(Selection, "measure", measure)
        plan = SimpleNamespace(forced=lambda: forced)
        return judge.judge_search(contest.Contest(bench, [contest.Entrant(bench, plan)]))

    return judged


def test_a_budget_is_missed_where_what_breaks_it_would_have_been_faster(verdict):
    found = verdict(0.7, 0.65, 0.75)
    assert (found.status, found.result) == (RunStatus.BUDGET_MISSED, None)
    assert found.reason == "no candidate that is better meets the budget of a drift of 0.01"


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ((1.31, 1.28, 1.33), "better either: round, latency ratio 1.31"),
        ((0.45, 0.3, 1.01), "proven to be better by the goal either: round, latency ratio 0.45 [0.30, 1.01]"),
    ],
)
def test_where_what_breaks_it_is_not_faster_the_original_is_delivered(verdict, figures, said):
    found = verdict(*figures)
    assert found.status is RunStatus.UNCHANGED
    assert found.result.candidate == ORIGINAL
    assert found.reason == (
        "no candidate is better than the original, and the candidate nearest to the budget of a drift of 0.01 "
        f"is not {said}"
    )


@pytest.mark.parametrize(("has_time", "timed"), [(True, 1), (False, 0)])
def test_the_original_is_not_timed_for_itself_where_that_would_take_longer_than_the_run(
    verdict, monkeypatch, has_time, timed
):
    monkeypatch.setattr(Deadline, "may_prove_more", has_time)
    asked = []
    found = verdict(1.31, 1.28, 1.33, measured=asked)
    assert (found.status, found.result.ratio, len(asked)) == (RunStatus.UNCHANGED, 1.0, timed)


def test_with_size_as_the_goal_what_is_smaller_would_have_helped(verdict):
    assert verdict(1.31, 1.28, 1.33, goal="size").status is RunStatus.BUDGET_MISSED


def test_what_does_not_run_would_not_have_helped(verdict):
    found = verdict(runs=False)
    assert found.status is RunStatus.UNCHANGED
    assert found.reason.endswith("the candidate nearest to the budget of a drift of 0.01 does not run")


def test_where_the_user_said_no_budget_none_is_missed(verdict):
    found = verdict(0.7, 0.65, 0.75, max_drift=None)
    assert (found.status, found.reason) == (RunStatus.UNCHANGED, "no candidate is better than the original")


def test_passes_that_there_was_no_time_to_try_once_are_named_with_the_seconds_that_would_do(verdict):
    late = [replace(ROUND, pass_name=name, options={}) for name in ("d", "c", "b", "a")]
    settings = replace(ROUND, stage=Stage.TUNE, pass_name="settings")
    fusion = replace(ROUND, stage=Stage.FUSE, pass_name="a fusion")
    said = verdict(0.7, 0.65, 0.75, max_drift=None, late=[fusion, *late, settings]).reason
    assert said == (
        "no candidate is better than the original; no time for a candidate of a, b, c and 2 more "
        "(about --search-seconds 720 would do)"
    )


def test_a_pass_that_was_tried_once_had_its_time(verdict):
    again = replace(ROUND, options={"bits": 4})
    assert verdict(0.7, 0.65, 0.75, max_drift=None, late=[again], tried=True).reason.endswith(
        "is better than the original"
    )


@pytest.mark.parametrize(("status", "named"), [(StepStatus.NOT_APPLICABLE, []), (StepStatus.SKIPPED, ["round"])])
def test_what_a_pass_said_of_the_model_is_an_answer_too(status, named):
    journal = board_of()
    journal.open(ROUND, ORIGINAL).settle(status, "it has nothing to round")
    journal.open(replace(ROUND, options={"bits": 4}), ORIGINAL).run_out(OUT_OF_TIME)
    assert untried(journal.attempts) == named


def test_a_named_pass_beyond_the_budget_misses_it_though_it_is_slower(verdict):
    found = verdict(1.31, 1.28, 1.33, named=(Named("round"),))
    assert found.status is RunStatus.BUDGET_MISSED
    assert found.reason == f"round was asked for, but it failed: {BEYOND}"


def test_a_named_pass_that_failed_is_no_missed_budget_whatever_its_reason_says(verdict):
    found = verdict(objection=Objection("it cannot look beyond the budget of its vendor"), named=(Named("round"),))
    assert found.status is RunStatus.FAILED


@pytest.mark.parametrize(
    ("figures", "goal", "status"),
    [
        ((0.8, 0.78, 0.82), "latency", RunStatus.IMPROVED),
        ((1.01, 0.97, 1.04), "latency", RunStatus.PREPARED),
        ((0.8, 0.78, 0.82), "size", RunStatus.PREPARED),
    ],
)
def test_what_was_asked_for_is_prepared_and_called_improved_only_where_the_goal_did(
    verdict, monkeypatch, figures, goal, status
):
    fixed = Step(Stage.FUSE, "fix", "plugin", {}, Role.REQUESTED, lossy=False)
    monkeypatch.setattr(Selection, "decide", lambda *_: timed_at(Candidate(model("fixed"), 100, (fixed,)), *figures))
    found = verdict(goal=goal)
    assert (found.status, found.result.ratio) == (status, figures[0])
    assert exit_status(SimpleNamespace(status=found.status, broken=())) is ExitStatus.DELIVERED


def test_what_is_undecided_is_not_delivered_and_the_verdict_says_what_to_type(verdict, monkeypatch):
    said = "undecided: 0.98 [0.97, 1.01]; give more seconds: --search-seconds 600"
    monkeypatch.setattr(Selection, "undecided", said)
    found = verdict(0.7, 0.65, 0.75, max_drift=None)
    assert (found.status, found.result.candidate, found.reason) == (RunStatus.UNCHANGED, ORIGINAL, said)


def test_a_named_pass_that_is_no_faster_is_blamed_and_not_one_that_only_prepares():
    board = board_of(Budget(0.01, 1e-4))
    board.open(replace(ROUND, pass_name="settings"), ORIGINAL).settle(StepStatus.DROPPED, "no faster")
    names = [("fix", Role.REQUESTED), ("settings", Role.IMPROVE)]
    forced = [
        SimpleNamespace(name=name, is_named=True, why="was asked for", pass_class=SimpleNamespace(role=role))
        for name, role in names
    ]
    bench = SimpleNamespace(original=ORIGINAL, prepared=SimpleNamespace(inexact=None))
    selection = SimpleNamespace(undecided="", objections=[])
    entrant = contest.Entrant(bench, SimpleNamespace(forced=lambda: forced))
    entrant.beam, entrant.selection = SimpleNamespace(board=board), selection
    ending = judge._Ending(bench, entrant)
    found = ending.nothing_better()
    assert (found.status, found.reason) == (RunStatus.FAILED, "settings was asked for, but it failed: no faster")
