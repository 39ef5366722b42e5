"""The seconds of a whole run, told by a clock that stands still until it is set."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from boards import board_of
from deadlines import original

from optim._engine.reports.build import _shapes
from optim._engine.runs import run as runs
from optim._engine.runs.execute import _announce
from optim._engine.runs.run import run_source
from optim._engine.search import deadline
from optim._engine.search.deadline import GRACE_S, LEAST_S, MOST_S, Deadline
from optim._engine.search.lane_costs import RACE_S, LaneCosts
from optim._engine.search.measure import clock as races
from optim._engine.search.measure.clock import Clock
from optim._engine.search.preparation import original_too_slow
from optim._engine.search.settings import AUTO, RunSettings
from optim._engine.search.state import Attempt, Step
from optim._engine.search.time_estimate import Load, PassCosts, estimate_s, in_time, in_words
from optim._engine.store import Store
from optim.goal import Ratio
from optim.passes import Role, Stage
from optim.source import SourceRequest
from optim_plugins.export import export_pipeline


class Now:
    def __init__(self):
        self.seconds = 500.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock(monkeypatch):
    monkeypatch.setattr(LaneCosts, "pace", 1.0)
    monkeypatch.setattr(LaneCosts, "programs", True)
    return Now()


def run_of(seconds, clock, *, run_s=0.01, size_bytes=90_000_000, samples=8):
    run = Deadline(seconds, clock)
    run.note_size(size_bytes)
    run.comparing_s = samples * run_s
    return run


def search_of(run, *, open_s=0.3, run_s=0.01, must=False):
    return run.of_search(original(open_s, run_s), 300.0, must=must)


def test_the_search_has_what_preparing_and_the_end_leave(clock):
    run = run_of(90.0, clock)
    clock.seconds += 10
    time = search_of(run)
    assert 40 < time.to_explore < 80 - 2 * RACE_S
    assert run.left == 80.0


def test_a_short_run_is_proven_as_one_of_30_s_and_half_of_what_is_left_is_for_the_search(clock):
    time = search_of(run_of(20.0, clock))
    assert time.to_explore >= 10.0
    assert (time.grace_s, races.final(time, 2).seconds) == (GRACE_S * 3 / 8, RACE_S * 3 / 8)
    assert time.end_s == pytest.approx(1.2 * LEAST_S - 1.8)


def test_no_race_goes_on_beyond_the_run_but_for_the_proof_and_its_floor(clock):
    run = run_of(100.0, clock)
    time = search_of(run)
    assert races.aside(time, 2).whole_s == pytest.approx(120 - 1.8)
    assert races.again(time, 2).whole_s == pytest.approx(100 - 1.8)
    assert races.again(time, 2).fresh
    assert time.may_prove_more
    clock.seconds += 97
    assert time.is_up
    assert races.aside(time, 2).whole_s == pytest.approx(23 - 1.8)
    assert races.again(time, 2).whole_s == run.spare_s == pytest.approx(3 - 1.8)
    assert time.may_prove
    assert not time.may_prove_more
    assert races.look(time, 50.0, 3).whole_s == races.first_look(time, 50.0).whole_s == time.for_look == 4.0
    assert Clock(None, board_of(), time).again(items := [object()]) == items  # without a race
    assert time.lanes_at_the_end(6) == 1


def test_what_is_begun_one_after_another_in_the_end_has_a_fifth_more_together(clock):
    time = search_of(run_of(100.0, clock))
    clock.seconds += 110
    assert time.may_prove
    assert races.final(time, 1).whole_s == pytest.approx(10 - 1.8)
    clock.seconds += 8
    assert not time.may_prove


def test_lanes_are_forks_where_there_is_no_time_for_programs(clock):
    time = search_of(run_of(100.0, clock), open_s=5.0)
    assert races.final(time, 2).fresh
    clock.seconds += 110
    assert not races.final(time, 2).fresh


def test_the_end_leaves_the_time_that_reading_the_model_took_for_writing_it(clock):
    run = Deadline(100.0, clock)
    run.note_reading(25.0)
    run.note_size(1_000_000_000)
    assert run.left - run.spare_s == pytest.approx(25.0)
    run = Deadline(100.0, clock)  # it was in the store
    run.note_size(1_000_000_000)
    assert run.left - run.spare_s == pytest.approx(1.5 + 1000 / 300)


def test_the_end_leaves_more_time_for_writing_where_the_start_waited_for_the_processor(clock, monkeypatch):
    closing = {}
    for waited in (0.1, 1.0, 30.0):
        monkeypatch.setattr(deadline, "start_of_command", lambda: deadline.Start(1.0 + waited, 1.0))  # noqa: B023
        run = run_of(100.0, clock)
        closing[waited] = (run.left - run.spare_s) / 1.8
    assert closing == pytest.approx({0.1: 1.1, 1.0: 2.0, 30.0: 3.0})


def test_what_the_user_gave_nothing_for_ends_within_five_minutes(clock):
    run = Deadline(AUTO, clock)
    assert run.most_for_original() < MOST_S
    run.announced_s = MOST_S
    run.note_size(1)
    assert run.spent + run.end_s + run.left - run.spare_s == pytest.approx(300.0)
    run.announced_s = 60.0
    assert run.floor_s == 12.0


def test_what_was_named_is_proven_whatever_the_time(clock):
    time = search_of(run_of(1.0, clock), must=True)
    clock.seconds += 50
    assert time.may_prove
    assert races.again(time, 1).whole_s < 0
    assert math.isinf(races.final(time, 1).whole_s)
    assert math.isinf(races.look(time, 5.0, 1).whole_s)


def test_a_model_that_runs_for_too_long_is_not_begun_to_be_timed(clock):
    assert search_of(run_of(300.0, clock, run_s=30.0, samples=1), run_s=30.0).may_prove
    assert not search_of(run_of(60.0, clock, run_s=30.0, samples=1), run_s=30.0).may_prove


def test_a_number_is_never_changed_and_auto_is_announced_once_the_model_is_known(clock):
    assert Deadline(45.0, clock).left == 45.0
    run = Deadline(AUTO, clock)
    assert math.isinf(run.left)
    assert run.for_original == MOST_S / 5
    run.announced_s = 60.0
    clock.seconds += 20
    assert run.left == 40.0


TINY = Load(size_bytes=10_000, nodes=1, samples=8, open_s=0.01, run_s=1e-5)
MINILM = Load(size_bytes=90_000_000, nodes=360, samples=8, open_s=0.3, run_s=0.012)
PASSES = [f"a.{i}" for i in range(15)]


def test_the_estimate_lies_between_half_a_minute_and_five(clock):
    assert estimate_s(TINY, PASSES[:1], PassCosts()) == LEAST_S
    assert 60 < estimate_s(MINILM, PASSES, PassCosts()) < 150
    assert estimate_s(TINY, PASSES[:1], PassCosts(), spent_s=MOST_S) == MOST_S
    assert estimate_s(Load(4_000_000_000, 400, 8, 10.0, 1.0), PASSES, PassCosts()) == MOST_S


def step(name: str) -> Step:
    return Step(Stage.FUSE, name, "a", {}, Role.IMPROVE, lossy=False)


def test_what_passes_took_before_corrects_the_estimate(tmp_path):
    store = Store(tmp_path)
    took = [Attempt(step(name), (), seconds=2 * MINILM.candidate_s) for name in PASSES]
    PassCosts.known(store).learned(took, MINILM).keep(store)
    known = PassCosts.known(store)
    assert known.factors["a.0"] == pytest.approx(2.0)
    assert estimate_s(MINILM, PASSES, known) > estimate_s(MINILM, PASSES, PassCosts()) + 10
    assert known.of(["new"]) == pytest.approx(2.0)  # as what is known of others


@pytest.mark.parametrize(("seconds", "words"), [(31, "30 seconds"), (118, "2 minutes"), (300, "5 minutes")])
def test_an_estimate_is_told_as_exactly_as_it_is(seconds, words):
    assert in_words(seconds) == words


def test_how_long_a_run_takes_is_said_at_its_start_where_nobody_said_it(clock, tmp_path):
    said: list[str] = []

    def announced(asked):
        settings = SimpleNamespace(search_seconds=asked)
        bench = SimpleNamespace(
            deadline=Deadline(asked, clock), settings=settings, store=Store(tmp_path), hold_to_time=lambda: None
        )
        plans = SimpleNamespace(by_target={"cpu": SimpleNamespace(names=PASSES)})
        _announce(bench, MINILM, plans, said.append)
        return bench.deadline.announced_s

    seconds = announced(AUTO)
    assert 60 < seconds < 150
    assert said == [f"about {in_words(seconds)}: {MINILM.text} (--search-seconds says otherwise)"]
    assert announced(45.0) == 45.0
    assert len(said) == 1


def test_the_load_is_told_in_a_few_words():
    assert MINILM.text == "90 MB, 360 nodes, 12 ms a run, 8 samples"
    assert Load(2_000_000_000, 1, 1, 1.0, 2.0).text == "2.0 GB, 1 node, 2.0 s a run, 1 sample"


@dataclass(frozen=True)
class Prepared:
    """What :func:`in_time` looks at of what a run was prepared with."""

    run_s: float
    compared: tuple[int, ...] = tuple(range(8))
    explored: tuple[int, ...] = (0, 3)
    timed: tuple[int, ...] = (0, 3)
    shapes: tuple[str, ...] = ("x 1", "x 2")
    available: int = 8
    cut_short: bool = False


def test_results_are_compared_on_as_many_samples_as_there_is_time_for(clock):
    run = Deadline(60.0, clock)
    fast, slow = in_time(Prepared(0.01), run), in_time(Prepared(1.5), run)
    assert (len(fast.compared), slow.compared, slow.explored, slow.shapes) == (8, (0, 7), (0,), ("x 1",))
    (note,) = run.notes
    assert note.startswith("a run of the original takes 1.5 s, so results are compared on 2 of 8 samples")


def test_where_samples_could_not_be_made_up_for_want_of_time_none_of_them_is_said_to_be_left_out(clock):
    run = Deadline(60.0, clock)
    in_time(Prepared(0.08, available=8, cut_short=True), run)
    (note,) = run.notes
    assert note.startswith("a run of the original takes 0.08 s, so there was no time for all synthesized")


def test_a_report_has_the_shapes_that_were_timed_and_no_others():
    ratio = Ratio(0.5, 0.4, 0.6, 9)
    outcome = SimpleNamespace(
        timing=SimpleNamespace(sample_ratio=(ratio,), sample_calls=()),
        original=SimpleNamespace(sample_ms=(2000.0,), sample_calls=()),
        prepared=SimpleNamespace(shapes=("x 1", "x 2")),
        result=None,
    )
    (row,) = _shapes(outcome)
    assert (row.shape, row.original_ms, row.result_ms) == ("x 1", 2000.0, 1000.0)


def test_connecting_to_a_cluster_is_no_search_time(monkeypatch):
    since_start = [3.0]

    @contextmanager
    def connecting(*asked):
        since_start[0] += 60.0
        yield SimpleNamespace(seen=None)

    monkeypatch.setattr(deadline, "is_a_command", lambda: True)
    monkeypatch.setattr(deadline, "wall_clock", lambda: psutil.Process().create_time() + since_start[0])
    monkeypatch.setattr(runs, "find_cluster", lambda *asked: SimpleNamespace(connect=connecting))
    monkeypatch.setattr(runs, "workplace_request", lambda *asked: None)
    registry = SimpleNamespace(look_elsewhere=lambda seen: None)
    deadline.start_of_command.cache_clear()
    try:
        with runs._workplace(RunSettings(Path("model.onnx"), cluster="local:2"), registry, None, print):
            assert Deadline(30.0, Now()).spent == pytest.approx(3.0)
    finally:
        deadline.start_of_command.cache_clear()


def test_exporting_a_source_comes_before_the_time_of_its_run(monkeypatch, tmp_path):
    since_start = [3.0]

    class ExportedError(Exception):
        pass

    def exporting(*asked, **how):
        since_start[0] += 60.0
        raise ExportedError

    monkeypatch.setattr(deadline, "is_a_command", lambda: True)
    monkeypatch.setattr(deadline, "wall_clock", lambda: psutil.Process().create_time() + since_start[0])
    monkeypatch.setattr(export_pipeline, "make_graphs", exporting)
    deadline.start_of_command.cache_clear()
    try:
        with pytest.raises(ExportedError):
            run_source(RunSettings(tmp_path, export=SourceRequest(str(tmp_path))), tmp_path / "out", print)
        assert Deadline(30.0, Now()).spent == pytest.approx(3.0)
    finally:
        deadline.start_of_command.cache_clear()


def test_who_gave_too_little_time_is_told_to_give_more():
    assert "--search-seconds 960, or" in original_too_slow("m.onnx", 5.0, 480.0).fix
    assert "--search-seconds 60, or" in original_too_slow("m.onnx", 5.0, math.inf).fix
