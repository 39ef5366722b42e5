"""Settings and steps with which the runtime makes the graph that it makes without them are no change."""

from __future__ import annotations

from dataclasses import replace

import onnx
import pytest
from deadlines import search_of
from timed_models import network

from optim._engine.plugins.registry import load_registry
from optim._engine.runs.execute import execute
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.rows import step_of
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.model import SessionConfig
from optim.passes import PassResult

pytestmark = pytest.mark.usefixtures("jobs_here", "counted_clock")

TUNE = "ort.tune-session"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Products, Relus and a node that does nothing, but not one LayerNormalization."""
    folder = tmp_path_factory.mktemp("idle")
    model = network()
    model.graph.node.append(onnx.helper.make_node("Identity", [model.graph.output[0].name], ["same"]))
    model.graph.output[0].name = "same"
    onnx.save(model, folder / "model.onnx")
    settings = RunSettings(source=folder / "model.onnx")
    made = Workbench(settings, load_registry(only=["ort"]), Store(folder / "cache"), None, lambda text: None)
    made.ingest()
    made.prepare()
    return made


@pytest.fixture
def tuned(bench):
    """The model under other settings."""
    offered = bench.registry.find_pass(TUNE, bench.target)

    def make(name, **settings):
        model = bench.original.model.with_session(SessionConfig(**settings))
        return bench.original.after(step_of(offered, {"disabled_optimizers": [name]}), PassResult(model, True), 1)

    return make


@pytest.fixture
def reasons(bench):
    def found(*others, seconds=100.0):
        idle = IdleSettings(bench.session_digests, search_of(seconds)).reasons(bench.original, others)
        return [idle.get(one.digest) for one in others]

    return found


def test_an_optimizer_that_has_nothing_to_do_may_as_well_be_off(reasons, tuned):
    off = tuned("LayerNormFusion", disabled_optimizers=("LayerNormFusion",))
    (reason,) = reasons(off)
    assert reason == "no change: the runtime builds the same graph from the model as without it"


def test_what_makes_another_graph_is_a_change_and_the_second_that_makes_it_is_none(reasons, tuned):
    basic = tuned("a", session_options={"graph_optimization_level": "ORT_ENABLE_BASIC"})
    disabled = tuned("b", session_options={"graph_optimization_level": "ORT_DISABLE_ALL"})
    again = tuned(
        "c", session_options={"graph_optimization_level": "ORT_DISABLE_ALL"}, disabled_optimizers=("LayerNormFusion",)
    )
    same = reasons(disabled, basic, again)
    assert same[0] is None
    assert same[2] == (
        "no change: the runtime builds the same graph from the model as with ort.tune-session (disabled_optimizers=b)"
    )


def test_settings_that_no_graph_goes_by_are_a_change(reasons, tuned):
    arena = tuned("a", session_options={"enable_cpu_mem_arena": False})
    threads = tuned("b", session_options={"intra_op_num_threads": 1}, disabled_optimizers=("LayerNormFusion",))
    spinning = tuned("c", session_config={"session.intra_op.allow_spinning": "0"})
    assert reasons(arena, threads, spinning) == [None, None, None]


def test_where_there_is_no_time_to_tell_everything_counts_as_a_change(reasons, tuned, bench, monkeypatch):
    monkeypatch.setattr(bench.runner, "fresh", True)
    off = tuned("LayerNormFusion", disabled_optimizers=("LayerNormFusion",))
    assert reasons(off, seconds=0.0) == [None]


def test_a_model_that_does_not_open_counts_as_a_change(reasons, tuned):
    broken = tuned("a", session_options={"no_such_option": 1})
    assert reasons(broken) == [None]


def test_a_node_that_the_runtime_drops_itself_makes_no_difference_and_one_that_it_keeps_does(bench, tmp_path):
    offered = bench.registry.find_pass("ort.clean", bench.target)

    def made(name, change):
        changed = network()
        changed.graph.output[0].name = "same"
        change(changed.graph)
        onnx.save(changed, tmp_path / f"{name}.onnx")
        found = bench.ingest_file(tmp_path / f"{name}.onnx")
        return bench.original.after(step_of(offered, {"name": name}), PassResult(found.model, True), found.size_bytes)

    def without_it(graph):
        graph.node[-1].output[0] = "same"

    def with_another(graph):
        graph.node.append(onnx.helper.make_node("Tanh", [graph.node[-1].output[0]], ["same"]))

    def with_a_denormal_weight(graph):
        without_it(graph)
        weight = onnx.numpy_helper.to_array(graph.initializer[0]).copy()
        weight.flat[0] = 1e-40
        graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weight, graph.initializer[0].name))

    others = made("same", without_it), made("other", with_another), made("slower", with_a_denormal_weight)
    same = others[0]
    reasons = IdleSettings(bench.session_digests, search_of(100.0)).reasons(bench.original, others, of_winner=True)
    assert reasons == {same.digest: "no change: the runtime builds the same graph from the model as without it"}


def test_how_threads_wait_leaves_the_graph_and_a_level_does_not(bench):
    def with_settings(**given):
        model = bench.original.model.with_session(SessionConfig(**given))
        return replace(bench.original, model=model)

    waiting = with_settings(session_config={"session.intra_op.allow_spinning": "0"})
    plain = with_settings(session_options={"graph_optimization_level": "ORT_DISABLE_ALL"})
    idle = IdleSettings(bench.session_digests, search_of(100.0))
    assert idle.same_graph(bench.original, waiting)
    assert not idle.same_graph(bench.original, plain)


@pytest.fixture
def run(bench):
    """A search of this one pass."""
    offers = bench.registry.offers(bench.registry.target("cpu"))
    without = tuple(sorted({offered.name for offered in offers} - {TUNE}))

    def made(**changes):
        settings = RunSettings(bench.settings.source, without=without, search_seconds=60.0, **changes)
        return execute(settings, bench.registry, bench.store, lambda text: None)

    return made


@pytest.mark.slow
def test_a_run_never_delivers_settings_that_change_nothing(run):
    outcome = run()
    rows = [one for one in outcome.attempts if one.step.options.get("level") == "extended"]
    assert {one.status for one in rows} == {StepStatus.DROPPED}
    assert all(one.reason.startswith("no change: ") and one.ratio is None for one in rows)
    assert [step for step in outcome.result.candidate.steps if step.options.get("level") == "extended"] == []


@pytest.mark.slow
def test_what_the_user_names_is_applied_though_it_changes_nothing(run):
    outcome = run(named=(Named(TUNE, {"disabled_optimizers": ["LayerNormFusionL2"]}),))
    rows = [one for one in outcome.attempts if one.step.options.get("disabled_optimizers") == ["LayerNormFusionL2"]]
    assert rows
    assert not any(one.reason.startswith("no change") for one in rows)
