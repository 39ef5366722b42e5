"""``optim profile``: times of nodes, joined, with what the machine can do."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim._engine.backends.held import HeldBackend
from optim._engine.cli.main import main
from optim._engine.feeds.feedset import FeedWriter
from optim._engine.plugins.registry import load_registry
from optim._engine.timing import nodes_job, work_job
from optim._engine.timing.nodes_job import Runs, in_turns, record_ms, without_records
from optim._engine.timing.profiled import read_timeline
from optim.errors import ExitStatus
from optim.laboratory import NodeTime
from optim.model import Model
from optim.onnx.backend import OnnxRuntimeBackend
from optim.onnx.files import describe_model
from optim_plugins.diagnose.profile import profile_job
from optim_plugins.diagnose.profile.command import _print
from optim_plugins.diagnose.profile.origin import joined

pytestmark = pytest.mark.usefixtures("jobs_here", "measured_briefly")


@pytest.fixture
def measured_briefly(monkeypatch):
    monkeypatch.setattr(profile_job, "_MEASURED_S", 0.02)


def product(path: Path, fused: bool = False, middle: str = "s") -> Path:
    """A product and a sum, or both in one node; ``middle`` is what they make."""
    info, make = helper.make_tensor_value_info, helper.make_node
    nodes = [make("MatMul", ["x", "w"], ["p"], "product"), make("Add", ["p", "b"], [middle], "sum")]
    if fused:
        nodes = [make("Gemm", ["x", "w", "b"], [middle], "both")]
    nodes.append(make("Erf", [middle], ["y"], "erf"))
    weights = [
        numpy_helper.from_array(np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32), "w"),
        numpy_helper.from_array(np.ones(32, np.float32), "b"),
    ]
    x, y = info("x", TensorProto.FLOAT, ["batch", 64]), info("y", TensorProto.FLOAT, ["batch", 32])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, path)
    return path


@pytest.mark.slow
def test_times_work_and_a_trace_are_told_of_each_model(tmp_path, capsys):
    models = [str(product(tmp_path / "a.onnx")), str(product(tmp_path / "b.onnx", fused=True, middle="z"))]
    draw = np.random.default_rng(0)
    samples = {f"{i}/x": draw.standard_normal((rows, 64)).astype(np.float32) for i, rows in enumerate((2, 8))}
    np.savez(tmp_path / "x.npz", **samples)
    trace = tmp_path / "trace.json"
    asked = ["profile", *models, "--data", str(tmp_path / "x.npz"), "--seconds", "0.01"]
    assert main([*asked, "--trace", str(trace), "--json"]) == ExitStatus.DELIVERED
    found = json.loads(capsys.readouterr().out)
    for model in found["models"]:
        total = sum(node["ms"] for node in model["nodes"])
        recorded = model["share"] * model["run_ms"]
        assert 0 < total <= recorded * (1 + 1e-6)  # sums of the same times in another order
        assert {"Erf"} < {node["operator"] for node in model["nodes"]}
        assert sum(node["flops"] for node in model["nodes"]) == 2 * 8 * 64 * 32
        assert model["first"]["grown"] > 0
    assert found["shape"] == {"x": [8, 64]}
    assert found["gflops"] > 0 < found["gbytes"]
    assert {event["pid"] for event in json.loads(trace.read_text())["traceEvents"]} == {1, 2}
    assert sum(one["before_ms"] for one in found["origins"]) == pytest.approx(
        sum(node["ms"] for node in found["models"][0]["nodes"])
    )
    by_value = {one["value"]: one["operators"] for one in found["origins"]}
    assert set(by_value) == {"s", "y"}  # s is called z in the second model
    assert by_value["y"] == [["Erf"], ["Erf"]]
    assert main(asked) == ExitStatus.DELIVERED
    text = capsys.readouterr().out
    assert "this machine's processor: " in text
    assert "before: " in text
    assert main(["profile", models[0], "--trace", str(tmp_path / "t.txt")]) == ExitStatus.USAGE


def test_nodes_are_joined_by_the_values_that_both_graphs_have(tmp_path):
    graphs = [onnx.load(product(tmp_path / f"{fused}.onnx", fused)) for fused in (False, True)]
    times = [
        [NodeTime(node.name, node.op_type, 1.0 + place, 0, 0, 0) for place, node in enumerate(graph.graph.node)]
        for graph in graphs
    ]
    found = {one.value: one for one in joined((graphs[0], times[0]), (graphs[1], times[1]), {})}
    assert found["s"].before == ("product", "sum")
    assert found["s"].after == ("both",)
    assert (found["s"].before_ms, found["s"].after_ms) == (3.0, 1.0)
    assert set(found) == {"s", "y"}
    other = onnx.load(product(tmp_path / "z.onnx", fused=True, middle="z"))
    times[1] = [NodeTime(node.name, node.op_type, 1.0, 0, 0, 0) for node in other.graph.node]
    by_name = joined((graphs[0], times[0]), (other, times[1]), {})
    assert {one.value for one in by_name} == {"y"}
    by_origin = {one.value: one for one in joined((graphs[0], times[0]), (other, times[1]), {"z": "s"})}
    assert (by_origin["s"].before, by_origin["s"].after) == (("product", "sum"), ("both",))


def test_a_branch_has_the_time_that_its_body_does_not_take(tmp_path):
    def kernel(name: str, kind: str, at: int, lasts: int) -> dict:
        return {"name": f"{name}_kernel_time", "ts": at, "dur": lasts, "args": {"op_name": kind}}

    events = [
        kernel("before", "Add", 1, 10),
        kernel("inner", "Conv", 22, 30),
        kernel("nested", "If", 55, 40),
        kernel("deep", "Relu", 60, 25),
        kernel("branch", "If", 20, 80),
        {"name": "model_run", "ts": 0, "dur": 100, "args": {}},
    ]
    (tmp_path / "p.json").write_text(json.dumps(events))
    found = read_timeline(tmp_path / "p.json", (), 0.5, {})
    times = {node.name: round(1e3 * node.ms) for node in found.nodes}
    assert times == {"before": 10, "inner": 30, "nested": 15, "deep": 25, "branch": 10}
    assert found.share == 0.9


def test_runs_that_only_warm_up_do_not_count(tmp_path):
    def event(name: str, at: int, lasts: int, **arguments: object) -> dict:
        return {"name": name, "ts": at, "dur": lasts, "args": arguments}

    shapes = {"input_type_shape": [{"float": [4, 3, 8, 8]}], "output_type_shape": [{"float": [4, 5, 8, 8]}]}
    events = [
        event("c_kernel_time", 0, 900, op_name="Conv", **shapes),
        event("model_run", 0, 1000),
        event("c_kernel_time", 2001, 80, op_name="Conv", **shapes),
        event("model_run", 2000, 100),
        event("c_kernel_time", 3001, 100, op_name="Conv", **shapes),
        event("model_run", 3000, 100),
    ]
    (tmp_path / "p.json").write_text(json.dumps(events))
    found = read_timeline(tmp_path / "p.json", {0}, 1, {"c": [5, 3, 3, 3]})
    assert (found.run_ms, found.share, found.nodes[0].ms) == (0.1, 0.9, 0.09)
    assert found.nodes[0].flops == 2 * 4 * 5 * 8 * 8 * 27
    assert found.nodes[0].moved_bytes == 4 * (4 * 3 * 64 + 4 * 5 * 64)


def test_the_profilers_own_time_is_taken_off_each_node_for_each_of_its_records():
    def node(name: str, ms: float, records: float = 1.0) -> NodeTime:
        return NodeTime(name, "Add", ms, 0, 0, 0, records)

    nodes = [node("long", 1.0), node("loop", 0.05, records=4), node("short", 0.003)]
    cost = record_ms(nodes, plain_ms=1.0 - 0.005 + 0.05 - 4 * 0.005)
    assert cost == pytest.approx(0.005)
    assert [one.ms for one in without_records(nodes, cost)] == [pytest.approx(ms) for ms in (0.995, 0.03, 0.0)]
    assert record_ms(nodes, plain_ms=2.0) == 0.0  # other programs slowed the plain runs down
    assert record_ms(nodes, plain_ms=0.1) == 0.02  # and here the others: no profiler takes so much


class Stand:
    """A stand-in for a session: the profiler writes one record a run, of 20 us, of 50 us where another model ran."""

    def __init__(self, name: str, ran: list[str], events: list[dict]) -> None:
        self.name, self.ran, self.events = name, ran, events

    def run(self, feeds: dict) -> None:
        self.ran.append(self.name)
        if self.name == "watched":
            lasts = 50 if len(self.ran) == 1 or self.ran[-2] == "plain" else 20
            at = 100 * len(self.ran)
            kernel = {"name": "a_kernel_time", "ts": at, "dur": lasts, "args": {"op_name": "Add"}}
            self.events.extend([kernel, {"name": "model_run", "ts": at, "dur": lasts}])

    def release(self) -> None:
        """Its device takes many."""


class StandInBackend:
    """Opens such sessions; those of a model that is profiled leave their records."""

    owner = None

    def __init__(self) -> None:
        self.ran: list[str] = []

    @contextmanager
    def open(self, model: Model, target: object):
        prefix, events = model.session.session_options.get("profile_file_prefix"), []
        yield Stand("watched" if prefix else "plain", self.ran, events)
        if prefix:
            Path(prefix).with_suffix(".json").write_text(json.dumps(events))


def stand_in_model(path: Path) -> Model:
    path.write_bytes(b"")
    return Model(path, "digest", (), (), {"": 17}, 8)


def test_runs_take_turns_and_the_first_of_each_turn_does_not_count(tmp_path):
    backend = StandInBackend()
    place, model = SimpleNamespace(backend=lambda: backend, target=None), stand_in_model(tmp_path / "m.onnx")
    runs = Runs(0.0, warm_up=2, least=8, share=1)
    timeline, times = in_turns(Stand("plain", backend.ran, []), place, model, {}, runs, {})
    assert "".join(name[0] for name in backend.ran) == "ww" + 2 * (5 * "p" + 5 * "w")
    assert len(times) == 8
    assert [node.ms for node in timeline.nodes] == [pytest.approx(0.02)]


def test_the_table_of_a_report_has_no_time_of_the_profiler_either(tmp_path, monkeypatch):
    def twelve_us(session: Stand, feeds: dict) -> float:
        session.run(feeds)
        return 0.012

    monkeypatch.setattr("optim._engine.timing.nodes_job.run_ms", twelve_us)
    place, model = SimpleNamespace(backend=StandInBackend, target=None), stand_in_model(tmp_path / "m.onnx")
    with FeedWriter(tmp_path / "feeds") as writer:
        writer.add({"x": np.zeros(1, np.float32)})
        writer.finish("x.npz", ())
    asked = nodes_job.Request((nodes_job.Fed(model, place),), tmp_path / "feeds", 0)
    said = []
    channel = SimpleNamespace(event=lambda kind, **values: said.append(kind), receive=lambda: said.append("go"))
    answer = nodes_job.run(asked, channel)
    ((node,),) = answer.models
    assert (node.operator, node.ms) == ("Add", pytest.approx(0.012))
    assert said == ["progress", "open", "go", "ran"]  # opened before it has the clock, read after it


class _Runtime(OnnxRuntimeBackend):
    name = "runtime"


def test_multiplications_are_counted_at_the_size_of_the_sample(tmp_path):
    """A convolution at 6 x 6 places, behind it a product of one row; the profiler's times are not looked at."""
    rng = np.random.default_rng(0)
    sizes = {"kernel": (4, 2, 3, 3), "w": (4, 8), "b": (8, 5)}
    constants = [numpy_helper.from_array(rng.random(shape, np.float32), name) for name, shape in sizes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "w"], ["m"], name="first"),
        helper.make_node("Gemm", ["m", "b"], ["y"], name="second"),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, "height", "width"]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5]),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with FeedWriter(tmp_path / "feeds") as writer:
        writer.add({"x": np.zeros((1, 2, 8, 8), np.float32)})
        writer.finish("x.npz", ())
    target = load_registry().target("cpu").plain
    place = SimpleNamespace(target=target, backend=lambda: HeldBackend(_Runtime, "optim"))
    found = work_job.run(work_job.Request(describe_model(path), place, tmp_path / "feeds", 0), None)
    conv, product = 4 * 6 * 6 * 2 * 9, 4 * 8 + 8 * 5
    assert found.shares == {
        "Conv": pytest.approx(conv / (conv + product)),
        "MatMul": pytest.approx(product / (conv + product)),
    }
    assert found.rows == {"MatMul": pytest.approx(1.0)}


@pytest.mark.parametrize(("share", "ms", "told"), [(0.5, 0.025, 0.015), (0.0, 0.02, 0.01), (1.0, 0.04, 0.03)])
def test_runs_that_something_slowed_down_do_not_count(tmp_path, share, ms, told):
    events = [{"name": "model_run", "ts": 0, "dur": 1}]  # it only warms up
    for place, lasts in enumerate((70, 20, 40, 30), 1):
        kernel = {"name": "a_kernel_time", "ts": 100 * place + 1, "dur": lasts - 10, "args": {"op_name": "Add"}}
        events += [kernel, {"name": "model_run", "ts": 100 * place, "dur": lasts}]
    (tmp_path / "p.json").write_text(json.dumps(events))
    found = read_timeline(tmp_path / "p.json", {0}, share, {})
    assert (found.run_ms, [node.ms for node in found.nodes]) == (ms, [pytest.approx(told)])


@pytest.mark.parametrize(("usual", "is_busy"), [(90.0, False), (40.0, True)])
def test_a_busy_machine_is_named_beside_what_its_processor_can_do(capsys, usual, is_busy):
    _print(profile_job.Answer((), (), 93.0, usual, 10.0, {}), [], 5)
    said = capsys.readouterr().out
    assert "this machine's processor: 93 GFLOP/s" in said
    assert ("half of the products ran at 40 GFLOP/s or less" in said) is is_busy


def test_the_processor_is_measured_for_as_long_as_it_takes_and_not_for_a_number_of_calls(monkeypatch):
    seconds = iter(range(100))
    monkeypatch.setattr(profile_job, "_MEASURED_S", 8.5)
    monkeypatch.setattr(profile_job.time, "perf_counter", lambda: float(next(seconds)))
    assert profile_job._times(lambda: None) == [1.0] * 4
