"""Steps of which the runtime makes the original's own graph are no change, through real sessions."""

from __future__ import annotations

import time
from dataclasses import replace

import onnx
import pytest
from timed_models import network

from optim._engine.plugins.registry import load_registry
from optim._engine.search.allowance import Allowance
from optim._engine.search.measure.idle_settings import IdleSettings
from optim._engine.search.rows import step_of
from optim._engine.search.settings import RunSettings
from optim._engine.search.workbench import Workbench
from optim._engine.store import Store
from optim.model import SessionConfig

pytestmark = pytest.mark.usefixtures("jobs_here")


def prepared(folder):
    """A run of a net with an Identity at its end."""
    model = network()
    model.graph.node.append(onnx.helper.make_node("Identity", [model.graph.output[0].name], ["same"]))
    model.graph.output[0].name = "same"
    onnx.save(model, folder / "model.onnx")
    settings = RunSettings(source=folder / "model.onnx")
    bench = Workbench(settings, load_registry(only=["ort"]), Store(folder / "cache"), None, lambda text: None)
    bench.prepare(bench.ingest().model)
    return bench


def test_a_node_that_the_runtime_drops_itself_makes_no_difference_and_one_that_it_keeps_does(tmp_path):
    bench = prepared(tmp_path)
    offered = bench.registry.find_pass("ort.clean", bench.target)

    def made(name, change):
        changed = network()
        changed.graph.output[0].name = "same"
        change(changed.graph)
        onnx.save(changed, tmp_path / f"{name}.onnx")
        found = bench.ingest_file(tmp_path / f"{name}.onnx")
        return bench.original.after(step_of(offered, {"name": name}), found.model, found.size_bytes, None)

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
    reasons = IdleSettings(bench, Allowance(100.0, time.monotonic)).reasons(bench.original, others)
    assert reasons == {same.digest: "no change: the runtime builds the same graph from the model as without it"}


def test_how_threads_wait_leaves_the_graph_and_a_level_does_not(tmp_path):
    bench = prepared(tmp_path)

    def with_settings(**given):
        model = bench.original.model.with_session(SessionConfig(**given))
        return replace(bench.original, model=model)

    waiting = with_settings(session_config={"session.intra_op.allow_spinning": "0"})
    plain = with_settings(session_options={"graph_optimization_level": "ORT_DISABLE_ALL"})
    idle = IdleSettings(bench, Allowance(100.0, time.monotonic))
    assert idle.same_graph(bench.original, waiting)
    assert not idle.same_graph(bench.original, plain)
