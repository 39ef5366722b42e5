"""The clock in lock-step on real sessions. Nothing is asserted of a time but what is clear by a factor."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from installed_plugin import workers_import
from timed_models import network, write_network

from optim._engine.gate.budget import Budget
from optim._engine.jobs.runner import thread_executor
from optim._engine.plugins.registry import load_registry
from optim._engine.search.measure.clock import Clock
from optim._engine.search.measure.race import Effort
from optim._engine.search.measure.racing import race_chains
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.jobs.process import WorkerFailed
from optim.model import SessionConfig
from optim.passes import Interface

QUICK = Effort(seconds=4.0, least_rounds=5, most_rounds=15, width=0.03, drop=False)
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
        made.prepare(made.ingest().model)
        yield made


@pytest.fixture(scope="module")
def node_of(bench, folder):
    """A model as a chain without steps."""

    def node(name, model):
        original = bench.original
        onnx.save(model, folder / f"{name}.onnx")
        found = bench.ingest_file(folder / f"{name}.onnx")
        return replace(original, model=found.model, size_bytes=found.size_bytes)

    return node


@pytest.fixture(scope="module")
def large_race(bench, node_of):
    """One race for many questions: equal, faster, much slower, crashing at once, crashing later, refused."""
    equal = replace(bench.original, model=bench.original.model)
    lanes = {
        "equal": equal,
        "faster": node_of("faster", network()),
        "slower": node_of("slower", network({"a": 4, "b": 24})),
        "crashing": replace(equal, interfaces=(Interface(feeds="lane_interfaces:abort"),)),
        "crashing later": replace(
            equal, interfaces=(Interface(feeds="lane_interfaces:abort_later", parameters={"seconds": 2.5}),)
        ),
        "raising": replace(equal, interfaces=(Interface(outputs="lane_interfaces:fail"),)),
        "refused": replace(equal, model=equal.model.with_session(SessionConfig({"no_such_option": 1}))),
    }
    effort = Effort(seconds=6.0, least_rounds=12, most_rounds=100_000, width=0.0, drop=False)
    base, results = race_chains(bench, list(lanes.values()), effort, purpose="large")
    return base, dict(zip(lanes, results, strict=True))


def test_the_base_is_its_own_measure(large_race):
    base, _ = large_race
    assert (base.failure, base.ratio.value, base.ratio.low, base.ratio.high) == ("", 1.0, 1.0, 1.0)
    assert base.latency_ms > 0
    assert base.ready.peak_memory_bytes > 0
    assert base.ready.executed_on == {"CPUExecutionProvider": 1.0}


def test_a_graph_with_several_times_the_work_is_slower(large_race):
    base, results = large_race
    assert results["slower"].ratio.value > 1
    assert results["slower"].latency_ms > base.latency_ms


def test_a_graph_with_a_third_of_the_work_is_faster(large_race):
    assert large_race[1]["faster"].ratio.value < 1


def test_the_same_graph_lies_between_the_faster_and_the_slower(large_race):
    results = large_race[1]
    ratio = results["equal"].ratio
    assert ratio.low <= ratio.value <= ratio.high
    assert results["faster"].ratio.value < ratio.value < results["slower"].ratio.value


def test_each_timed_sample_has_its_own_figures(bench, large_race):
    base, results = large_race
    for result in (base, results["equal"], results["faster"]):
        assert len(result.sample_ms) == len(result.sample_ratio) == len(bench.prepared.timed)


@pytest.mark.parametrize("lane", ["crashing", "crashing later"])
def test_a_lane_that_crashes_says_so_and_costs_only_itself(large_race, lane):
    _, results = large_race
    assert "SIGABRT" in results[lane].failure
    assert results[lane].ratio is None
    assert all(results[other].failure == "" for other in ("equal", "faster", "slower"))


def test_a_lane_that_crashes_later_was_ready_before(large_race):
    assert large_race[1]["crashing later"].ready is not None
    assert large_race[1]["crashing"].ready is None


def test_a_lane_that_fails_says_why(large_race):
    _, results = large_race
    assert "no idea what to do with y" in results["raising"].failure
    assert "no attribute 'no_such_option'" in results["refused"].failure


def test_a_race_with_a_failure_in_it_is_run_again(bench):
    failing = replace(bench.original, interfaces=(Interface(outputs="lane_interfaces:fail"),))
    for _ in range(2):
        before = bench.runner.count
        race_chains(bench, [failing], replace(QUICK, seconds=0.5), purpose="failing")
        assert bench.runner.count == before + 1


def test_a_race_without_failures_is_remembered(bench):
    before = (bench.runner.count, bench.runner.from_cache)
    quick, nodes = replace(QUICK, seconds=0.5), [bench.original]
    first, second = (race_chains(bench, nodes, quick, purpose="remembered") for _ in range(2))
    assert first == second
    assert (bench.runner.count, bench.runner.from_cache) == (before[0] + 1, before[1] + 1)


def test_a_beaten_lane_leaves_the_race(bench, node_of):
    slower, faster = node_of("beaten", network({"a": 40})), node_of("ahead", network())
    effort = Effort(seconds=4.0, least_rounds=5, most_rounds=20, width=0.0, drop=True)
    _, (lost, won) = race_chains(bench, [slower, faster], effort, purpose="beaten")
    assert lost.ratio.rounds < won.ratio.rounds
    assert lost.ratio.value > won.ratio.value


def test_a_base_that_does_not_run_is_an_error(bench):
    broken = replace(
        bench.original, model=bench.original.model.with_session(SessionConfig({"graph_optimization_level": "FASTEST"}))
    )
    whole = bench.original
    try:
        bench.original = broken
        with pytest.raises(WorkerFailed, match="no value 'FASTEST'"):
            race_chains(bench, [whole], QUICK, purpose="broken base")
    finally:
        bench.original = whole


def test_a_lane_whose_outputs_are_wrong_is_an_objection_and_no_result(bench, node_of):
    """However fast it is: it is not timed, so that nothing right looks slow beside it."""
    wrong, right = node_of("wrong", network(seed=1)), node_of("right", network())
    lost = replace(bench.original, interfaces=(Interface(outputs="lane_interfaces:forget_everything"),))
    clock = Clock(bench, Budget(None, bench.prepared.tolerance), deadline=0.0)
    found = clock.measure([wrong, right, lost], QUICK, "wrong", bench.prepared.compared)
    assert [item.candidate.model.digest for item in found] == [right.model.digest]
    assert "beyond what rounding explains" in clock.objections[wrong.model.digest]
    assert "other outputs than the original" in clock.objections[lost.model.digest]
    assert clock.results[wrong.model.digest].ratio is None
    assert clock.wrong[wrong.model.digest].drift.relative_l2 > 0.1


def test_a_renamed_output_is_right_only_through_its_interface(bench, node_of):
    model = network()
    model.graph.node[-1].output[0] = model.graph.output[0].name = "renamed"
    bare = node_of("renamed", model)
    back = Interface(outputs="lane_interfaces:rename", parameters={"renamed": "y"})
    _, (lost, right) = race_chains(
        bench, [bare, replace(bare, interfaces=(back,))], replace(QUICK, seconds=0.5), purpose="renamed"
    )
    assert "candidate: renamed" in lost.failure
    assert right.failure == ""
    assert [(found.name, found.relative_l2 < 1e-5) for found in right.ready.comparisons] == [("y", True)]
