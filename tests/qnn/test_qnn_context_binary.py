"""``qnn.context-binary``: compiled, reloaded, and run with the same outputs."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from qnn_models import OFFLINE, QNN, apply, build, images, normal, on_htp, operators, run_on_htp, small_net

from optim import ExitStatus, OptimError
from optim._engine.graphs.ingest import ingest
from optim.onnx import deliver_model, external_files, model_size_bytes
from optim_qnn.compile.context_binary import ContextBinary
from optim_qnn.quantize.quantize import Quantize

pytestmark = [pytest.mark.slow, on_htp]


def quantized(folder: Path):
    return apply(Quantize, small_net(folder), folder, images()).model


@pytest.mark.parametrize("embed", [False, True])
def test_a_compiled_model_is_reloaded_and_gives_the_same_outputs(embed: bool, tmp_path: Path) -> None:
    model, feeds = quantized(tmp_path), images(1)[0]
    result = apply(ContextBinary, model, tmp_path, embed=embed)
    assert operators(result.model) == ["EPContext"]
    assert result.counts == {"EPContext": 1, "nodes left to the CPU": 0}
    assert "Snapdragon X Elite (sc8380xp)" in result.notes[0]
    assert bool(external_files(result.model.path)) is not embed
    np.testing.assert_array_equal(run_on_htp(model, feeds)["y"], run_on_htp(result.model, feeds)["y"])


def test_a_delivered_compiled_model_is_a_graph_and_one_file_that_travel_together(tmp_path: Path) -> None:
    model = apply(ContextBinary, quantized(tmp_path), tmp_path).model
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    out.mkdir()
    written = deliver_model(model, out)
    assert sorted(path.name for path in written) == ["model.onnx", "model.onnx.context.bin"]
    assert sum(path.stat().st_size for path in written) == pytest.approx(model_size_bytes(model), rel=0.01)
    shutil.move(out, elsewhere)
    again = ingest(elsewhere / "model.onnx", tmp_path / "another-store")
    assert again.path.parent == tmp_path / "another-store"
    feeds = images(1)[0]
    np.testing.assert_array_equal(run_on_htp(model, feeds)["y"], run_on_htp(again, feeds)["y"])


def test_the_same_model_compiles_to_the_same_bytes(tmp_path: Path) -> None:
    model = quantized(tmp_path)
    assert apply(ContextBinary, model, tmp_path).model.digest == apply(ContextBinary, model, tmp_path).model.digest


def test_a_node_that_htp_does_not_take_stops_the_compiler_and_is_told(tmp_path: Path) -> None:
    model = build(tmp_path, [helper.make_node("Det", ["x"], ["y"], name="det")], {"x": [1, 4, 4]}, {"y": [1]})
    with pytest.raises(OptimError) as caught:
        apply(ContextBinary, model, tmp_path)
    assert caught.value.reference == "not-compiled"
    assert caught.value.status is ExitStatus.NOT_HELD
    assert caught.value.cause.startswith("HTP does not run some of its nodes")


def test_it_declines_with_a_reason(tmp_path: Path) -> None:
    done = apply(ContextBinary, quantized(tmp_path), tmp_path).model
    assert "compiled already" in ContextBinary().applicable(done, QNN).reason
    assert "onnxruntime-qnn" in ContextBinary().applicable(small_net(tmp_path), OFFLINE).reason
    assert "dynamic" in ContextBinary().applicable(small_net(tmp_path, batch="n"), QNN).reason


@pytest.mark.parametrize(
    ("name", "reference"), [("gone.bin", "external-data-missing"), ("../up.bin", "external-data-outside")]
)
def test_a_compiled_model_without_its_file_is_refused(name: str, reference: str, tmp_path: Path) -> None:
    node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context=name, embed_mode=0)
    value = helper.make_tensor_value_info("x", 1, [1])
    graph = helper.make_graph([node], "g", [value], [helper.make_tensor_value_info("y", 1, [1])])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "m.onnx")
    with pytest.raises(OptimError) as caught:
        ingest(tmp_path / "m.onnx", tmp_path / "store")
    assert caught.value.reference == reference
    assert name in str(caught.value)


def test_a_compiled_model_has_its_bytes_in_it_unless_it_says_otherwise(tmp_path: Path) -> None:
    node = helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context=b"\xff\x00compiled")
    value = helper.make_tensor_value_info("x", 1, [1])
    graph = helper.make_graph([node], "g", [value], [helper.make_tensor_value_info("y", 1, [1])])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "m.onnx")
    stored = ingest(tmp_path / "m.onnx", tmp_path / "store").path
    assert list((tmp_path / "store").rglob("*.data")) == []
    (kept,) = onnx.load(stored).graph.node
    assert helper.get_node_attr_value(kept, "ep_cache_context") == b"\xff\x00compiled"


def test_weights_are_not_left_beside_what_was_compiled(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = build(
        tmp_path,
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        {"x": [1, 64]},
        {"y": [1, 64]},
        {"w": normal(rng, 64, 64)},
    )
    made = apply(ContextBinary, apply(Quantize, model, tmp_path, [{"x": normal(rng, 1, 64)}]).model, tmp_path).model
    assert len(external_files(made.path)) == 1
