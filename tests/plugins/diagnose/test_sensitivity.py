"""Sensitivity and repair, for a pass that its vendor wrote without thinking of either."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from installed_plugin import installed
from timed_models import BATCH, WIDTH, write_network

import optim
from optim._engine.cli.main import main
from optim._engine.plugins.registry import load_registry
from optim._engine.repair import replay
from optim._engine.repair.pass_probe import PassProbe
from optim._engine.reports.outcome import RunStatus
from optim._engine.runs.execute import execute
from optim._engine.search.settings import Named, RunSettings
from optim._engine.search.state import StepStatus
from optim._engine.store import Store
from optim.errors import ExitStatus, OptimError
from optim.onnx.files import discard_measured, read_ir, save_for_measuring, save_in_store
from optim.passes import Stage
from optim_plugins.diagnose.sensitivity.command import _find, measure_sensitivity
from optim_plugins.diagnose.sensitivity.plot import draw

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "counted_clock")]

NODES = [f"useful_{i}_matmul" for i in range(6)]
STRENGTHS = {"useful_2_matmul": 0.3, "useful_4_matmul": 0.2}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lossy")
    with installed(folder, "lossy_plugin"):
        yield write_network(folder / "model.onnx", {"a": 8}, useful=6)


@pytest.fixture(scope="module")
def measure(model):
    def run(wanted: str = "lossy.round", exact: bool = False, data: str | None = None, **options):
        given = {"strengths": STRENGTHS, **options} if wanted == "lossy.round" else options
        with optim.lab(model, data=data) as lab:
            return measure_sensitivity(lab, wanted, given or {}, exact=exact)

    return run


@pytest.fixture(scope="module")
def estimated(measure):
    return measure()


@pytest.fixture(scope="module")
def on_one_sample(measure, tmp_path_factory):
    """Estimated and measured; of several samples a node is estimated on one, and measured where it is the worst."""
    data = tmp_path_factory.mktemp("data") / "one.npz"
    np.savez(data, x=np.random.default_rng(0).standard_normal((BATCH, WIDTH)).astype(np.float32))
    return measure(data=str(data)).found, measure(data=str(data), exact=True).found


def repaired(model: Path, name: str, **changes):
    registry = load_registry()
    offers = [offered.name for offered in registry.offers(registry.target("cpu"))]
    settings = RunSettings(
        source=model,
        without=tuple(sorted(set(offers) - {name})),
        named=(Named(name),),
        max_drift=0.05,
        search_seconds=40.0,
        **changes,
    )
    outcome = execute(settings, registry, Store(), lambda text: None)
    tried = [attempt for attempt in outcome.attempts if attempt.step.pass_name == name]
    return next((attempt for attempt in tried if attempt.step.options.get("keep")), None), tried


def test_the_costliest_nodes_come_first(estimated):
    answer = estimated.found
    assert answer.estimated
    assert [node.names for node in answer.nodes[:2]] == [("useful_2_matmul",), ("useful_4_matmul",)]
    assert {name for node in answer.nodes for name in node.names} == set(NODES)
    assert sum(node.share for node in answer.nodes) == pytest.approx(1.0)
    assert sum(node.work for node in answer.nodes) == pytest.approx(1.0)
    assert {node.operators for node in answer.nodes} == {("MatMul",)}
    assert answer.ground < 1e-6


def test_estimates_on_a_sample_are_what_applying_the_pass_to_one_node_alone_does_to_it(on_one_sample):
    estimated, exact = on_one_sample
    assert (estimated.estimated, exact.estimated) == (True, False)
    assert exact.whole == estimated.whole
    by_name = {node.names: node.drift for node in exact.nodes}
    for node in estimated.nodes:
        assert node.drift == pytest.approx(by_name[node.names], rel=1e-3)


def test_errors_of_all_nodes_together_are_about_what_the_whole_pass_does(on_one_sample):
    """About: the error of a node also changes with what the nodes before it make of theirs."""
    estimated, _ = on_one_sample
    assert dict(estimated.curve)[0] == pytest.approx(estimated.whole, rel=0.1)


def test_leaving_the_costliest_in_float_takes_the_drift_away(estimated):
    curve = dict(estimated.found.curve)
    assert curve[6] < 1e-6
    counts = sorted(curve)
    assert all(curve[a] >= curve[b] for a, b in pairwise(counts))
    assert curve[2] < 0.1 * curve[0]


def test_a_node_that_overflows_is_told_from_one_that_drifts(measure):
    answer = measure("lossy.round", overflow=["useful_3_matmul"]).found
    assert math.isinf(answer.whole)
    assert answer.nodes[0].names == ("useful_3_matmul",)
    assert math.isinf(answer.nodes[0].drift)
    assert all(math.isfinite(node.drift) for node in answer.nodes[1:])


def test_a_pass_that_takes_no_graph_in_pieces_is_measured_by_applying_it(measure):
    found = measure("lossy.whole", strengths=STRENGTHS)
    assert not found.found.estimated
    assert "this is no whole model" in found.found.note
    assert found.found.nodes[0].names == ("useful_2_matmul",)


def test_a_model_whose_values_take_too_much_memory_is_measured_by_applying_the_pass(measure, monkeypatch):
    monkeypatch.setattr(replay, "MOST_BYTES", 20_000)
    found = measure().found
    assert not found.estimated
    assert "GB of memory, too much" in found.note


def test_zeros_of_many_values_take_the_memory_of_the_largest():
    shapes = {"a": (2, 3), "b": (5,), "c": ()}
    zeros = replay._zeros_like({name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    assert {name: array.shape for name, array in zeros.items()} == shapes
    assert not any(array.any() for array in zeros.values())
    assert np.shares_memory(zeros["a"], zeros["b"])


def test_nothing_that_was_only_measured_is_left_in_the_store(estimated):
    assert not [path for path in Store().models.iterdir() if path.name.startswith(".") or path.suffix == ".tmp"]
    assert not list(Store().root.glob("scratch-*"))


def test_discarding_a_measured_model_spares_one_of_the_same_bytes(tmp_path):
    source = write_network(tmp_path / "model.onnx", {"a": 1})
    kept = save_in_store(read_ir(source), tmp_path / "store")
    measured = save_for_measuring(read_ir(source), tmp_path / "store")
    assert measured.path.read_bytes() != b""
    discard_measured(measured)
    discard_measured(kept)
    assert not measured.path.exists()
    onnx.load(kept.path)
    assert len(list((tmp_path / "store").iterdir())) == 2


def test_an_injected_graph_without_errors_is_the_model_itself(model):
    graph = read_ir(model)
    arrays = {f"useful_{i}_raw": np.zeros((6, 96), np.float32) for i in range(6)}
    replay.injected(graph, arrays)
    added = [node for node in graph.graph if node.op_type == "Add" and node.name.startswith("optim_error")]
    assert len(added) == 6
    assert [value.name for value in graph.graph.outputs] == ["y"]


def test_a_candidate_of_any_vendor_is_repaired(model):
    kept, tried = repaired(model, "lossy.round")
    assert [attempt.status for attempt in tried if not attempt.step.options["keep"]] == [StepStatus.DROPPED]
    assert kept is not None
    assert kept.step.options["keep"] == ["useful_2_matmul", "useful_4_matmul"]
    assert kept.drift.relative_error <= 0.05
    assert kept.notes[0].startswith("repaired: 2 nodes left in float, ")
    assert "evaluation" in kept.notes[0]
    assert "estimates" in kept.notes[0]


def test_a_candidate_is_repaired_though_a_slower_rival_holds(model):
    registry = load_registry()
    offers = [offered.name for offered in registry.offers(registry.target("cpu"))]
    others = tuple(sorted(set(offers) - {"lossy.round", "lossy.gentle"}))
    settings = RunSettings(source=model, without=others, max_drift=0.05, search_seconds=40.0)
    tried = execute(settings, registry, Store(), lambda text: None).attempts
    assert [one.step.options.get("keep") for one in tried if one.drift and one.drift.relative_error <= 0.05] == [
        None,
        ["useful_2_matmul", "useful_4_matmul"],
    ]


def test_a_candidate_that_overflows_is_repaired(model):
    kept, tried = repaired(model, "lossy.overflow")
    assert "576 elements became NaN" in tried[0].reason
    assert kept is not None
    assert kept.step.options["keep"] == ["useful_3_matmul"]


@pytest.fixture(scope="module")
def named(model):
    registry = load_registry()
    others = {offered.name for offered in registry.offers(registry.target("cpu"))} - {"lossy.round"}

    def run(*keep, carried=False):
        asked = Named("lossy.round", {"otherwise": 9.0, "keep": list(keep)}, carried)
        settings = RunSettings(
            source=model, named=(asked,), without=tuple(sorted(others)), stages=(Stage.QUANTIZE,), search_seconds=0.0
        )
        return execute(settings, registry, Store(), lambda text: None)

    return run


def test_a_name_to_keep_that_no_graph_of_the_run_has_is_an_error_with_the_nearest(named):
    with pytest.raises(OptimError, match="did you mean useful_2_matmul") as caught:
        named("useful_0_matmul", "useful_2_matmull")
    assert (caught.value.reference, caught.value.status) == ("unknown-node", ExitStatus.USAGE)
    assert "'useful_2_matmull'" in caught.value.what


def test_a_recipe_may_name_nodes_of_other_models_and_a_node_may_be_named_in_vain(named):
    assert named("useful_2_matmull", carried=True).status is RunStatus.BUDGET_MISSED
    assert named("useful_0_relu").status is RunStatus.BUDGET_MISSED


@pytest.mark.parametrize(
    ("arguments", "reference"),
    [
        (["--as", "int99"], "unknown-type"),
        (["--as", "lossy.round:kep=1"], "unknown-option"),
        (["--as", "ort.clean"], "not-lossy"),
        (["--as", "int8", "--plot", "plot.png"], "bad-plot"),
        (["--as", "bfloat16", "--data", "missing.npz"], None),
        (["--as", "noise:keep=['useful_0_matmul']"], None),
        (["--as", "noise:keep=['useful_0_matmull']"], "unknown-node"),
    ],
)
def test_what_cannot_be_measured_is_one_clear_error(model, arguments, reference, capsys):
    status = main(["sensitivity", str(model), *arguments, "--json"])
    said = json.loads(capsys.readouterr().out)
    if reference is None and "error" not in said:
        assert status == 0
        return
    assert status in (2, 3)
    assert reference in (None, said["error"]["reference"])


def test_a_pass_that_can_do_nothing_says_why(model, capsys):
    assert main(["sensitivity", str(model), "--as", "ort.convert-bfloat16", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["reference"] == "not-applicable"
    assert "kernel" in error["cause"]


def test_the_table_and_the_plot_name_the_costliest_node(model, tmp_path, capsys):
    plot = tmp_path / "plot.svg"
    asked = "noise:strengths={useful_2_matmul=0.3}"
    assert main(["sensitivity", str(model), "--as", asked, "--top", "3", "--plot", str(plot)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("useful_2_matmul")
    assert "and 3 more: --top 6" in said
    assert "useful_2_matmul" in plot.read_text()


def test_a_plot_is_well_formed_whatever_the_names(estimated):
    from xml.etree import ElementTree

    ElementTree.fromstring(draw(estimated, "a <b> & c.onnx"))


def test_a_type_is_made_by_the_plugin_that_runs_the_target_whoever_else_offers_it(model):
    with optim.lab(model) as lab:
        passes = lab.passes()
    for made in ("int8", "float16", "bfloat16"):
        assert _find(made, passes)[0].name.startswith("ort.")


def _parsed(path: Path, text: str) -> Path:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), path)
    return path


def test_a_type_is_made_by_the_first_pass_that_can_do_something_for_the_model(tmp_path, capsys):
    """Dynamic quantization knows no convolution, and there is no other operator here."""
    weight = ", ".join(f"{number:.3f}" for number in np.random.default_rng(0).standard_normal(32))
    text = f"g (float[1, 4, 9, 9] x) => (float[1, 8, 9, 9] y) <float[8, 4, 1, 1] w = {{{weight}}}> {{ y = Conv(x, w) }}"
    path = _parsed(tmp_path / "net.onnx", text)
    assert main(["sensitivity", str(path), "--as", "int8", "--exact", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["pass"], said["nodes"][0]["operators"]) == ("ort.quantize-static", ["Conv"])


def test_where_no_pass_of_a_type_can_do_anything_each_says_why(tmp_path, capsys):
    path = _parsed(tmp_path / "net.onnx", "g (float[4] x) => (float[4] y) { y = Exp(x) }")
    assert main(["sensitivity", str(path), "--as", "int8", "--json"]) == 3
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["reference"] == "not-applicable"
    refused = {line.split(":")[0] for line in error["cause"].splitlines()}
    assert refused >= {"ort.quantize-dynamic", "ort.quantize-static"}


def test_a_runtime_that_refuses_what_the_pass_makes_is_an_error_and_no_infinite_drift(measure, monkeypatch):
    def opened(probe, model, **how):
        raise OptimError("session-failed", "onnxruntime refuses the model", "its weights are gone", "bring them back")

    monkeypatch.setattr(PassProbe, "opened", opened)
    with pytest.raises(OptimError) as caught:
        measure(strengths={"useful_1_matmul": 0.25}, exact=True)
    assert caught.value.reference == "session-failed"


def test_a_pass_that_can_leave_no_node_alone_is_refused(measure, monkeypatch):
    monkeypatch.setattr(PassProbe, "nodes", property(lambda _: (), lambda *_: None), raising=False)
    with pytest.raises(OptimError) as caught:
        measure(strengths={"useful_1_matmul": 0.25})
    assert caught.value.reference == "nothing-to-measure"
