"""The clock in lock-step on real sessions, of which no time is asserted; and what is made of times that are given."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace

import onnx
import pytest
from boards import board_of
from deadlines import search_of
from installed_plugin import workers_import
from timed_models import network, write_network

from optim._engine.gate.budget import Budget
from optim._engine.jobs.runner import thread_executor
from optim._engine.jobs.start_up import Ready
from optim._engine.plugins.registry import load_registry
from optim._engine.search.measure import race_job
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.race_job import Effort
from optim._engine.search.measure.racing import Races, Wanted
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.errors import OptimError
from optim.goal import ROUNDS_FOR_95
from optim.jobs.process import WorkerFailed
from optim.model import SessionConfig
from optim.passes import Interface

QUICK = Effort(seconds=0.2, least_rounds=3, most_rounds=5, width=0.03, drop=False, fresh=False)
"""Lanes are forks; those of the large race are programs, as for what is delivered."""
WASTE = {"a": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        workers_import(patch)
        yield tmp_path_factory.mktemp("race")


@pytest.fixture(scope="module")
def bench(folder):
    """A workbench over the network with some waste; its store keeps every race apart by its purpose."""
    settings = RunSettings(source=write_network(folder / "original.onnx", WASTE))
    with thread_executor() as executor:
        made = Workbench(settings, load_registry(), Store(folder / "cache"), executor, lambda text: None)
        made.ingest()
        made.prepare()
        yield made


@pytest.fixture(scope="module")
def candidate_of(bench, folder):
    """A model as a chain without steps."""

    def candidate(name, model):
        original = bench.original
        onnx.save(model, folder / f"{name}.onnx")
        found = bench.ingest_file(folder / f"{name}.onnx")
        return replace(original, model=found.model, size_bytes=found.size_bytes)

    return candidate


@pytest.fixture(scope="module")
def large_race(bench, candidate_of):
    """One race for many questions: two that run, crashing at once, crashing later, raising, refused."""
    equal = replace(bench.original, model=bench.original.model)
    lanes = {
        "equal": equal,
        "faster": candidate_of("faster", network()),
        "crashing": replace(equal, interfaces=(Interface(feeds="lane_interfaces:abort"),)),
        "crashing later": replace(
            equal, interfaces=(Interface(feeds="lane_interfaces:abort_later", parameters={"seconds": 1.5}),)
        ),
        "raising": replace(equal, interfaces=(Interface(outputs="lane_interfaces:fail"),)),
        "refused": replace(equal, model=equal.model.with_session(SessionConfig({"no_such_option": 1}))),
    }
    effort = Effort(seconds=2.0, least_rounds=5, most_rounds=100_000, width=0.0, drop=False)
    base, results = Races(bench).race(list(lanes.values()), effort, Wanted(bench.prepared.explored))
    return base, dict(zip(lanes, results, strict=True))


@pytest.mark.slow
def test_the_base_is_its_own_measure(large_race):
    base, _ = large_race
    assert (base.failure, base.ratio.value, base.ratio.low, base.ratio.high) == ("", 1.0, 1.0, 1.0)
    assert base.latency_ms > 0
    assert base.ready.peak_memory_bytes > 0
    assert base.ready.executed_on == {"CPUExecutionProvider": 1.0}


def test_each_timed_sample_has_its_own_figures(bench, large_race):
    base, results = large_race
    for result in (base, results["equal"], results["faster"]):
        assert len(result.sample_ms) == len(result.sample_ratio) == len(bench.prepared.timed)


@pytest.mark.parametrize("lane", ["crashing", "crashing later"])
def test_a_lane_that_crashes_says_so_and_costs_only_itself(large_race, lane):
    _, results = large_race
    assert "SIGABRT" in results[lane].failure
    assert results[lane].ratio is None
    assert all(results[other].failure == "" for other in ("equal", "faster"))


def test_a_lane_that_crashes_later_was_ready_before(large_race):
    assert large_race[1]["crashing later"].ready is not None
    assert large_race[1]["crashing"].ready is None


def test_a_lane_that_fails_says_why(large_race):
    _, results = large_race
    assert "no idea what to do with y" in results["raising"].failure
    assert "no attribute 'no_such_option'" in results["refused"].failure


def test_what_a_clock_said_once_is_never_taken_from_the_cache(bench):
    before = (bench.runner.count, bench.runner.from_cache)
    first, second = (Races(bench).race([bench.original], QUICK)[1][0] for _ in range(2))
    assert first.ratio != second.ratio
    assert (bench.runner.count, bench.runner.from_cache) == (before[0] + 2, before[1])


# Figures that are given: what is made of them.


class Told:
    """A lane's process that answers each round with given seconds by sample."""

    def __init__(self, *seconds):
        self.seconds = seconds

    def send(self, message):
        assert message["go"]
        self.by_wall = message["by_wall"]

    def receive(self, timeout_s):
        return {"seconds": [[second] * 3 for second in self.seconds], "cpu_s": 0.0}

    def close(self):
        pass


class Contradicting(Told):
    """A device whose clock says a thousandth of what passes."""

    def receive(self, timeout_s):
        answer = super().receive(timeout_s)
        if self.by_wall:
            return answer
        said = [[one / 1000 for one in sample] for sample in answer["seconds"]]
        return {**answer, "seconds": said, "doubt": [self.seconds[0] / 1000, self.seconds[0]]}


class Unsteady(Told):
    """Seconds that differ from round to round."""

    def __init__(self, *rounds):
        self.rounds = itertools.cycle(rounds)

    def receive(self, timeout_s):
        self.seconds = next(self.rounds)
        return super().receive(timeout_s)


def told(request):
    """The results of a race."""
    answer = race_job.race(request, request.effort)
    return answer.base, answer.lanes


def _told(lane):
    return lane if isinstance(lane, Told) else Told(*lane)


def test_a_clock_that_contradicts_the_walls_is_believed_of_no_model(raced):
    base, (honest, wrong) = raced((0.02,), (0.01,), Contradicting(0.03))
    assert (base.ratio.value, honest.ratio.value) == (1.0, pytest.approx(0.5))
    assert wrong.ratio.value == pytest.approx(1.5)
    assert wrong.latency_ms == pytest.approx(30.0)
    assert (base.doubt, honest.doubt, wrong.doubt) == (None, None, (0.03 / 1000, 0.03))


@pytest.fixture
def raced(monkeypatch):
    """Results of a race of lanes that take so many seconds in every sample of every round; the first is the base."""
    ready = Ready((), 0, {}, ())

    def opened(base, lanes, effort, end):
        return [race_job.Lane(_told(seconds), ready) for seconds in (base, *lanes)]

    monkeypatch.setattr(race_job, "open_lanes", opened)
    monkeypatch.setattr(race_job.NoiseWatch, "foreign_share", lambda watch: None)  # whatever else the machine does

    def run(*lanes, admit=None, **effort):
        asked = Effort(**{"seconds": 60.0, "width": 0.0, **effort})
        return told(race_job.Request(lanes[0], lanes[1:], asked, 0, admit))

    return run


def test_a_ratio_is_to_the_base_and_below_one_is_faster(raced):
    base, (slower, faster, equal) = raced([0.1, 0.2], [0.3, 0.6], [0.02, 0.04], [0.1, 0.2], drop=False)
    assert [result.ratio.value for result in (base, slower, faster, equal)] == pytest.approx([1.0, 3.0, 0.2, 1.0])
    assert faster.sample_ms == pytest.approx((20.0, 40.0))
    assert slower.latency_ms == pytest.approx((300.0 * 600.0) ** 0.5)


def test_samples_count_alike_however_long_they_take(raced):
    _, (mixed,) = raced([0.001, 1.0], [0.0005, 2.0])
    assert mixed.ratio.value == pytest.approx(1.0)
    assert [ratio.value for ratio in mixed.sample_ratio] == pytest.approx([0.5, 2.0])


def test_a_beaten_lane_leaves_the_race(raced):
    _, (lost, near, won) = raced([0.1], [0.3], [0.101], [0.1], least_rounds=5, most_rounds=20)
    assert (lost.ratio.rounds, won.ratio.rounds) == (5, 60)
    assert near.ratio.rounds == 60


def test_a_race_ends_when_its_interval_is_narrow(raced):
    _, (won,) = raced([0.1], [0.05], least_rounds=7, width=0.02)
    assert won.ratio.rounds == 7


def test_rounds_go_on_while_it_is_open_whether_the_best_is_faster(raced):
    """An interval within the width that was asked for ends a race, unless it reaches over the line."""
    straddling = {"least_rounds": 7, "most_rounds": 20, "width": 0.5}
    _, (open_,) = raced([0.1], [0.0996], decides=True, **straddling)
    _, (clear,) = raced([0.1], [0.09], decides=True, **straddling)
    _, (told,) = raced([0.1], [0.0996], **straddling)
    assert (clear.ratio.rounds, told.ratio.rounds) == (7, 7)
    assert open_.ratio.rounds == 7  # 0.996 in every round: clearly no faster
    unsteady = Unsteady([0.09], [0.11])
    assert raced([0.1], unsteady, decides=True, **straddling)[1][0].ratio.rounds > 7
    assert raced([0.1], unsteady, decides=True, decide_s=60.0, **straddling)[1][0].ratio.rounds == 60
    assert raced([0.1], unsteady, decides=True, seconds=0.0, **straddling)[1][0].ratio.rounds == ROUNDS_FOR_95


def test_a_race_that_decides_goes_on_to_the_rounds_that_an_interval_needs(raced):
    few = {"least_rounds": 3, "width": 0.5}
    assert raced([0.1], [0.05], **few)[1][0].ratio.rounds == 3
    assert raced([0.1], [0.05], decides=True, **few)[1][0].ratio.rounds >= 6
    assert raced([0.1], [0.11], decides=True, **few)[1][0].ratio.rounds == 3  # nothing says that it may be faster
    slow = {"least_rounds": 10, "seconds": 0.0, "decides": True}
    assert raced([0.1], [0.05], **slow)[1][0].ratio.rounds == 6
    assert raced([0.1], [0.11], **slow)[1][0].ratio.rounds == 3


def test_a_large_gain_need_not_be_known_to_a_hundredth_unless_something_is_as_good(raced):
    asked = {"least_rounds": 8, "most_rounds": 20, "width": 0.015, "gain_width": 0.2}
    _, (alone,) = raced([0.1], Unsteady([0.048], [0.052]), **asked)
    _, (one, other) = raced([0.1], Unsteady([0.048], [0.052]), Unsteady([0.052], [0.048]), **asked)
    _, (small,) = raced([0.1], Unsteady([0.088], [0.092]), **asked)
    assert (alone.ratio.rounds, one.ratio.rounds, other.ratio.rounds, small.ratio.rounds) == (8, 60, 60, 60)


def test_rounds_do_not_go_on_for_a_gain_of_next_to_nothing(raced):
    asked = {"decides": True, "least_rounds": 8, "most_rounds": 20, "width": 0.001}
    _, (nothing,) = raced([0.1], Unsteady([0.099], [0.1005], [0.101]), **asked)
    _, (perhaps,) = raced([0.1], Unsteady([0.09], [0.1005], [0.101]), **asked)
    assert nothing.ratio.rounds == 8
    assert perhaps.ratio.rounds > 8


# Chains on a workbench.


def test_a_base_that_does_not_run_is_an_error(bench):
    broken = replace(
        bench.original, model=bench.original.model.with_session(SessionConfig({"graph_optimization_level": "FASTEST"}))
    )
    whole = bench.original
    try:
        bench.original = broken
        with pytest.raises(OptimError, match="no value 'FASTEST'"):
            Races(bench).race([whole], QUICK)
    finally:
        bench.original = whole


@pytest.mark.slow
def test_a_lane_whose_outputs_are_wrong_is_an_objection_and_no_result(bench, candidate_of, monkeypatch):
    """However fast it is: it is not timed, so that nothing right looks slow beside it."""
    wrong, right = candidate_of("wrong", network(seed=1)), candidate_of("right", network())
    lost = replace(bench.original, interfaces=(Interface(outputs="lane_interfaces:forget_everything"),))
    monkeypatch.setattr(Workbench, "budget", Budget(None, bench.prepared.tolerance))
    clock = Clock(Races(bench), board_of(), search_of(0.0, 300.0))
    wanted = Wanted(bench.prepared.compared, gated=True)
    found = clock.measure([wrong, right, lost], QUICK, wanted)
    assert [item.candidate.model.digest for item in found] == [right.model.digest]
    assert "beyond what rounding explains" in clock.board[wrong].objection.text
    assert "other outputs than the original" in clock.board[lost].objection.text
    assert clock.board[wrong].result.ratio is None
    assert clock.board[wrong].broken.drift.relative_error > 0.1


@pytest.mark.slow
def test_a_renamed_output_is_right_only_through_its_interface(bench, candidate_of):
    model = network()
    model.graph.node[-1].output[0] = model.graph.output[0].name = "renamed"
    bare = candidate_of("renamed", model)
    back = Interface(outputs="lane_interfaces:rename", parameters={"renamed": "y"})
    wanted = Wanted(bench.prepared.explored)
    _, (lost, right) = Races(bench).race([bare, replace(bare, interfaces=(back,))], QUICK, wanted)
    assert "candidate: renamed" in lost.failure
    assert right.failure == ""
    assert [(found.name, found.relative_error < 1e-5) for found in right.ready.comparisons] == [("y", True)]


def test_a_short_timeout_costs_the_candidate_and_not_the_race(bench, candidate_of):
    other = candidate_of("other", network({"a": 3}))
    effort = replace(QUICK, open_timeout_s=0.001)
    base, (same, late) = Races(bench).race([bench.original, other], effort)
    assert base.ratio is not None
    assert same.ratio is not None
    assert "0.001 s" in late.failure


def test_an_original_that_stops_running_is_a_diagnosis(bench, monkeypatch):
    def dies(*arguments):
        raise WorkerFailed("signal 9", "crashed")

    monkeypatch.setattr("optim._engine.search.measure.race_job.race", dies)
    with pytest.raises(OptimError) as raised:
        Races(bench).race([bench.original], QUICK)
    assert raised.value.reference == "original-failed"
    assert "signal 9" in raised.value.cause


def test_a_model_alone_can_be_timed(bench):
    base, others = Races(bench).race([], QUICK)
    assert base.latency_ms > 0
    assert others == []


def test_times_and_ratios_of_a_race_say_the_same_however_noisy_it_was():
    def timed(*seconds):
        return race_job.Lane(Told(), Ready((), 0, {}, ()), [[second] for second in seconds])

    base, lane = timed(0.1, 0.2, 0.1, 0.2, 0.1), timed(0.1, 0.1, 0.09, 0.1, 0.3)
    rounds = SimpleNamespace(kept=[0, 1, 2, 3, 4], disturbed=0.0)
    found, first = (race_job._figures(one, base, rounds) for one in (lane, base))
    assert found.ratio.value == pytest.approx(0.9)
    assert found.latency_ms == pytest.approx(0.9 * first.latency_ms)
    assert found.sample_ms == pytest.approx((90.0,))


def test_a_round_that_the_end_of_the_run_cuts_does_not_count(raced, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(race_job.time, "monotonic", lambda: now[0])
    run_lane = race_job.run_lane

    def slow(lane, timeout_s):
        now[0] += 1.0
        return run_lane(lane, timeout_s)

    monkeypatch.setattr(race_job, "run_lane", slow)
    _, (other,) = raced([0.1], [0.05], whole_s=4.5)
    assert (other.ratio.rounds, other.ratio.value) == (2, pytest.approx(0.5))
    now[0] = 0.0
    _, (other,) = raced([0.1], [0.05], whole_s=0.5)
    assert (other.ratio, other.failure, other.out_of_time) == (None, "", True)


@pytest.mark.parametrize(("least", "rounds"), [(10, 3), (2, 2)])
def test_a_race_with_nothing_beside_the_base_ends_after_few_rounds(raced, least, rounds):
    base, (other,) = raced([0.1], [0.05], admit=lambda place, ready: False, least_rounds=least, most_rounds=20)
    assert (base.ratio.rounds, other.ratio) == (rounds, None)


def test_a_lane_that_the_end_of_the_run_finds_silent_has_not_failed(raced, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(race_job.time, "monotonic", lambda: now[0])

    class Silent(Told):
        def receive(self, timeout_s):
            now[0] += timeout_s
            raise WorkerFailed("did not finish", "timeout")

    _, (other,) = raced(Silent(0.1), [0.05], whole_s=4.5)
    assert (other.failure, other.out_of_time) == ("", True)


def test_what_is_not_open_when_the_time_is_over_has_not_failed(monkeypatch):
    said = []

    def late(request, timeout_s, **how):
        said.append(timeout_s)
        raise WorkerFailed("did not finish", "timeout")

    monkeypatch.setattr(race_job, "open_lane", late)
    request = SimpleNamespace(model=SimpleNamespace(digest="a"), comparison=SimpleNamespace(place=None))
    base, (other,) = told(race_job.Request(request, (request,), Effort(1.0, fresh=False, whole_s=0.0), 0))
    assert base.out_of_time
    assert (other.failure, other.out_of_time) == ("", True)
    assert said == []
    with pytest.raises(WorkerFailed):
        told(race_job.Request(request, (request,), Effort(1.0, fresh=False), 0))
