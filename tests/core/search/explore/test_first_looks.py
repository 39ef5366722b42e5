"""Each pass has its turn early, whichever plugin it is of: one that is slow and useless takes no one's place."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import dawdling_plugin
import pytest
from all_goals import GOALS
from boards import board_of, timed_at
from counted_clock import counted
from installed_plugin import installed
from timed_models import write_network

from optim._engine.jobs.start_up import StartUp
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.search.deadline import LATER, Deadline
from optim._engine.search.explore.beam import Beam, within_reach
from optim._engine.search.explore.first_looks import FirstLooks
from optim._engine.search.explore.promise import Promises, fair_order
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.lane_figures import expected_of
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import Candidate, LaneResult, Step, StepStatus
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.goal import Ratio
from optim.model import Model
from optim.passes import Role, Stage

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looks")
    with installed(folder, "dawdling_plugin", "timed_plugin", "hinting_plugin"):
        write_network(folder / "model.onnx", {"a": 6, "b": 6, "c": 6})
        yield folder


@pytest.fixture(scope="module")
def settings(folder):
    registry = load_registry()
    chosen = ("dawdling.useless", "dawdling.lossily", "timed.drop-a", "timed.round")
    offers = {offered.name for offered in registry.offers(registry.target("cpu"))}
    return RunSettings(
        folder / "model.onnx",
        without=tuple(sorted(offers - set(chosen))),
        stages=(Stage.FUSE, Stage.QUANTIZE),
        search_seconds=1200.0,
        most_samples=2,
    )


def test_what_promises_most_comes_first(settings):
    registry = load_registry()
    plan = make_plan(settings, registry, registry.target("cpu"))
    order = [planned.name for planned in fair_order(plan)]
    assert order == ["dawdling.lossily", "timed.round", "dawdling.useless", "timed.drop-a"]


@pytest.fixture
def told(monkeypatch, counted_seconds):
    """Counts nodes and seconds, and says what each pass gains: neither noise nor other programs decide anything."""
    monkeypatch.setattr(dawdling_plugin, "dawdle", counted_seconds.pass_by)
    note = Promises.note_ratio

    def note_given(self, step, ratio):
        note(self, step, 1.0 if step.plugin == "dawdling" else 0.7)

    monkeypatch.setattr(Promises, "note_ratio", note_given)
    with counted():
        yield


def rounds(outcome):
    return [one for one in outcome.attempts if one.step.pass_name == "timed.round"]


@pytest.mark.slow
@pytest.mark.usefixtures("told")
def test_a_plugin_of_slow_and_useless_candidates_makes_no_result_worse(settings, folder):
    """Its twelve candidates would take twice the search; each pass has its first, and the others what they need."""
    outcome = execute(settings, load_registry(), Store(folder / "cache"), lambda text: None)
    assert any(one.ratio is not None for one in rounds(outcome))
    dawdled = [one for one in outcome.attempts if one.step.plugin == "dawdling"]
    assert len([one for one in dawdled if one.seconds >= dawdling_plugin.DAWDLE_S]) <= 2
    skipped = {one.reason for one in dawdled if one.status is StepStatus.SKIPPED}
    assert skipped
    assert all("other passes promise more" in reason or "search time ran out" in reason for reason in skipped)


@pytest.mark.slow
@pytest.mark.usefixtures("told")
def test_what_was_right_at_its_first_look_is_raced_though_the_time_is_over(settings, folder, monkeypatch):
    """Asking took the time of the search: what had its first look whatever the time may still win."""
    before = Deadline.before
    monkeypatch.setattr(Deadline, "before", lambda self, name: -1.0 if name == LATER else before(self, name))
    outcome = execute(settings, load_registry(), Store(folder / "another"), lambda text: None)
    first = rounds(outcome)[0]
    assert first.on == ()
    assert first.parent_ratio is not None
    assert first.status is not StepStatus.SKIPPED


@pytest.fixture
def looked(folder, settings):
    """Rows of the first looks of a search that considers these passes alone."""

    def rows_of(*names, **options):
        registry = load_registry()
        offers = {offered.name for offered in registry.offers(registry.target("cpu"))}
        chosen = replace(
            settings, stages=(), search_seconds=800.0, without=tuple(sorted(offers - set(names))), **options
        )
        bench = Workbench(chosen, registry, Store(folder / "direct"), None, lambda text: None)
        bench.ingest()
        bench.prepare()
        plan = make_plan(chosen, registry, bench.target)
        beam = Beam(bench, plan)
        looks = FirstLooks(beam._expander, beam.clock)
        rows_of.found = [tuple(step.pass_name for step in one.candidate.steps) for one in looks.run(plan, 1.0)]
        rows_of.attempts = beam.board.attempts
        return [(one.step.pass_name, one.on, one.ratio is not None) for one in beam.board.attempts]

    return rows_of


def test_lossy_settings_are_compared_and_timed(looked):
    found = looked("timed.drop-a", "hinting.coarse")
    assert ("hinting.coarse", (), True) in found
    (hint,) = (one for one in looked.attempts if one.step.pass_name == "hinting.coarse" and one.on == ())
    assert hint.drift is not None and hint.drift.relative_error == 0.0


def test_the_stage_tune_has_a_first_look_at_its_best_guess_alone(looked):
    found = looked("timed.drop-a", "timed.drop-b", "ort.tune-session", "ort.tune-execution")
    (settings,) = [one for one in looked.attempts if one.step.pass_name in ("ort.tune-session", "ort.tune-execution")]
    assert (settings.step.pass_name, settings.on) == ("ort.tune-session", ())
    assert settings.ratio is not None or settings.reason.startswith("no change")
    found = looked("timed.drop-a", "timed.drop-b", "ort.tune-execution")
    assert ("ort.tune-execution", (), True) in found


def test_what_makes_way_has_a_first_look_with_what_it_makes_way_for(looked):
    found = looked("timed.drop-a", "timed.make-way", "timed.drop-b")
    assert ("timed.drop-b", ("timed.make-way",), True) in found
    assert ("timed.make-way", (), False) in found


def test_what_makes_way_for_nothing_is_not_looked_at_further(looked):
    found = looked("timed.drop-a", "timed.drop-b", "timed.pointless")
    assert [row for row in found if row[1]] == []
    assert ("timed.pointless", (), False) in found


def test_what_was_named_comes_first_and_the_others_are_looked_at_on_it(looked):
    named = (Named("timed.drop-a"),)
    rows = looked("timed.drop-a", "timed.drop-b", "timed.round", named=named)
    assert ("timed.drop-a", (), False) in rows
    assert {on for name, on, _ in rows if name == "timed.round"} == {("timed.drop-a",)}
    assert looked.found[0] == ("timed.drop-a",)
    assert all(chain[0] == "timed.drop-a" for chain in looked.found)


def test_a_goal_of_its_own_clock_has_first_looks_too(looked):
    looked("timed.drop-a", "timed.drop-b", goal="memory")
    assert looked.found
    assert {chain[0] for chain in looked.found} <= {"timed.drop-a", "timed.drop-b"}


@pytest.mark.parametrize(("goal", "expected"), [("throughput", 0.5), ("generate", 0.5), ("startup", 0.25)])
def test_calls_and_starts_stand_for_the_clock_of_a_goal(goal, expected):
    def lane(ratio, open_s, first_s):
        ready = SimpleNamespace(start=StartUp(open_s, 0, (first_s, 9.0), {}))
        return LaneResult(ready=ready, ratio=Ratio(ratio, ratio, ratio, 3))

    base, own = lane(1.0, 0.3, 0.1), lane(0.5, 0.08, 0.02)
    assert expected_of(GOALS[goal], own, base) == pytest.approx(expected)
    assert expected_of(GOALS["latency"], own, base) is None
    assert expected_of(GOALS[goal], LaneResult(), base) is None


def test_what_was_not_timed_by_the_goal_is_ranked_by_what_its_calls_let_expect(tmp_path):
    longer = (Step(Stage.FUSE, "a.b", "a", {}, Role.IMPROVE, False),)

    def item(name, ratio, goal=None, steps=longer):
        return timed_at(Candidate(Model(tmp_path / name, name, (), (), {"": 17}, 9), 1, steps), ratio, goal=goal)

    original = item("o", 1.0, steps=()).candidate
    board = board_of(goal=GOALS["throughput"], original=original)
    raced, looked, unknown = item("raced", 0.9, Ratio(0.8, 0.8, 0.8, 2)), item("looked", 0.6), item("unknown", 0.1)
    board[looked.candidate].hoped, board[raced.candidate].hoped, board[original].hoped = 0.6, 0.1, 1.0
    assert [one.digest for one in board.ranked([unknown, raced, looked])] == ["looked", "raced", "unknown"]
    board[looked.candidate].hoped = 0.75
    assert [one.digest for one in board.ranked([unknown, raced, looked])] == ["raced", "looked", "unknown"]


@pytest.mark.parametrize(("goal", "going_on"), [("generate", ["raced", "near", "unknown"]), ("throughput", None)])
def test_where_answers_are_the_goal_no_chain_goes_on_that_is_far_behind(tmp_path, goal, going_on):
    figures = {"raced": 0.6, "near": 0.74, "unknown": None, "far": 0.8}
    steps = (Step(Stage.FUSE, "a.b", "a", {}, Role.IMPROVE, False),)
    items = [
        timed_at(
            Candidate(Model(tmp_path, name, (), (), {"": 17}, 9), 1, steps),
            0.5,
            goal=figure and Ratio(*[figure] * 3, 2),
        )
        for name, figure in figures.items()
    ]
    board = board_of(goal=GOALS[goal], original=items[0].candidate)
    assert [one.digest for one in within_reach(board, items)] == (going_on or list(figures))


def test_a_goal_with_a_clock_of_its_own_has_first_looks_at_calls(looked):
    rows = looked("timed.drop-a", "timed.drop-b", goal="throughput")
    assert ("timed.drop-a", (), True) in rows
    assert all(one.goal_ratio is None for one in looked.attempts)
    assert looked.found


def test_what_holds_and_was_not_timed_may_still_be_proven(looked, monkeypatch):
    monkeypatch.setattr(Clock, "first_look", lambda *_: [])
    rows = looked("timed.drop-a", "timed.drop-b")
    assert ("timed.drop-a", (), False) in rows
    assert looked.found  # on a busy machine one of the two ran out of time
    assert {chain[0] for chain in looked.found} <= {"timed.drop-a", "timed.drop-b"}


def test_what_promises_most_per_second_comes_first(settings, folder, monkeypatch):
    """A pass that takes ten times as long for half as much again is looked at last."""
    registry = load_registry()
    bench = Workbench(settings, registry, Store(folder / "order"), None, lambda text: None)
    bench.ingest()
    bench.prepare()
    plan = make_plan(settings, registry, bench.target)
    beam = Beam(bench, plan)
    batches = []
    monkeypatch.setattr(Workbench, "try_all", lambda _, trials, seconds: batches.append(trials) or [None] * len(trials))
    monkeypatch.setattr(Promises, "expected_s", lambda _, name: 20.0 if name == "timed.round" else 2.0)
    monkeypatch.setattr(Promises, "gain", lambda _, step: 0.6 if step.pass_name == "timed.round" else 0.4)
    looks = FirstLooks(beam._expander, beam.clock)
    looks.run(plan, 1.0)
    names = [trial.offered.name for trials in batches for trial in trials]
    assert names.index("timed.round") > names.index("timed.drop-a")
    assert len(batches[0]) == len(names)
    batches.clear()
    monkeypatch.setattr(Workbench, "try_all", lambda _, trials, seconds: batches.append(trials) or [None] * len(trials))
    beam._expander.expand(bench.original, plan.stages[Stage.QUANTIZE])  # stages go by the gain alone, and not by name
    assert next(trial.offered.name for trials in batches for trial in trials) == "timed.round"


def test_what_offers_nothing_says_so_at_once(looked):
    """There may be no time for its stage: the verdict would name it among what more time is for."""
    looked("timed.drop-a", "timed.round", "ort.fuse-convolution")
    (row,) = [one for one in looked.attempts if one.step.pass_name == "ort.fuse-convolution"]
    assert (row.status, row.reason) == (StepStatus.NOT_APPLICABLE, "the graph has no Conv")


def test_what_was_looked_at_is_repaired_before_any_stage(looked, monkeypatch):
    handed = []
    monkeypatch.setattr(FirstLooks, "repaired", lambda _, found, *__: handed.extend(found) or [found[0].candidate])
    looked("timed.drop-a", "timed.round")
    assert sorted(one.planned.name for one in handed) == ["timed.drop-a", "timed.round"]
    assert len(looked.found) == 3
