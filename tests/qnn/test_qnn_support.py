"""``optim qnn support``: node by node."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qnn_models import BACKEND, QNN, on_htp

from optim import OptimError
from optim._engine.cli.main import main
from optim.jobs import WorkerFailed
from optim.onnx import describe_model
from optim_qnn.htp.ask_htp import reasons_in
from optim_testing import models

LOG = """\
2026-01-01 10:00:00.1 [V:onnxruntime:, x.cc:1 LogNodeSupport] Validation FAILED for 1 nodes in OrtNodeUnit (Det) :
\tOperator type: Det Node name: det Node index: 6
\tREASON : Operators of type `Det` are not supported by QNN EP.Det node `det` will not be assigned to QNN EP.

10:00 [W:onnxruntime:, y.cc:2 Create] QNN.backendValidateOpConfig() failed for node `rs` of type `Reshape` with error
2026-01-01 10:00:00.3 [V:onnxruntime:, x.cc:1 LogNodeSupport] Validation FAILED for 1 nodes in OrtNodeUnit (Reshape) :
\tOperator type: Reshape Node name: rs Node index: 4
\tREASON : Failed to add node.

2026-01-01 10:00:00.4 [V:onnxruntime:, x.cc:1 LogNodeSupport] Validation FAILED for 1 nodes in OrtNodeUnit (Einsum) :
\tOperator type: Einsum Node name: e Node index: 5
\tREASON : einsum_op_builder.cc:99 IsOpSupported The equation is too long
"""


def graph(folder: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Trilu", ["r"], ["t"], name="tri"),
        helper.make_node("Add", ["t", "r"], ["y"], name="add"),
        helper.make_node("Det", ["r"], ["z"], name="det"),
    ]
    info = helper.make_tensor_value_info
    outputs = [info("y", TensorProto.FLOAT, [1, 8, 8]), info("z", TensorProto.FLOAT, [1])]
    made = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, [1, 8, 8])], outputs)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(made, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


def test_reasons_are_read_from_the_log_of_the_provider() -> None:
    assert reasons_in(LOG) == {
        "det": "onnxruntime's QNN provider does not have this operator",
        "rs": "HTP refuses these types, shapes or attributes",
        "e": "The equation is too long",
    }


@pytest.mark.slow
@on_htp
def test_each_node_has_where_it_runs_why_and_the_rewrite(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["qnn", "support", str(graph(tmp_path)), "--json"]) == 4
    found = json.loads(capfd.readouterr().out)
    rows = {node["name"]: node for node in found["nodes"]}
    assert rows["relu"] == {"name": "relu", "operator": "Relu", "taken": True, "why": "", "rewrite": ""}
    assert not rows["tri"]["taken"]
    assert "Where with a constant triangle" in rows["tri"]["rewrite"]
    assert "does not have this operator" in rows["det"]["why"]
    assert rows["det"]["rewrite"] == ""
    (left,) = found["left"]
    assert left.startswith("Det 'det'")


@pytest.mark.slow
@on_htp
def test_the_table_says_the_same_for_people(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    main(["qnn", "support", str(graph(tmp_path)), "--only-unsupported"])
    lines = capfd.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["tri", "det"]
    assert "unchanged: HTP runs 2 of 4 nodes" in lines
    assert "after qnn.preprocess: HTP runs 3 of 4 nodes" in lines


@pytest.mark.slow
@on_htp
def test_a_dynamic_model_is_looked_at_with_the_shapes_of_the_data(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = models.encoder(tmp_path)
    assert main(["qnn", "support", str(model)]) == 2
    assert "dynamic-without-data" in capfd.readouterr().err
    data = tmp_path / "data.npz"
    np.savez(data, input_ids=np.ones((1, 8), np.int64), attention_mask=np.ones((1, 8), np.int64))
    assert main(["qnn", "support", str(model), "--data", str(data)]) == 0
    assert "dynamic inputs are fixed as in the samples: input_ids 1x8" in capfd.readouterr().out


@on_htp
@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["nowhere.onnx"], 3, "nowhere.onnx"),
        (["model.onnx", "--target", "cpu"], 2, "does not run on QNN"),
        (["model.onnx", "--target", "qnn:soc=sm1"], 2, "unknown-soc"),
    ],
)
def test_what_cannot_be_looked_at_is_one_error(arguments, status, says, tmp_path, capfd, monkeypatch) -> None:
    graph(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["qnn", "support", *arguments]) == status
    assert says in capfd.readouterr().err


@pytest.mark.slow
@on_htp
def test_a_model_that_htp_does_not_take_whole_names_the_nodes(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught, BACKEND.open(describe_model(graph(tmp_path)), QNN.plain):
        pass
    assert caught.value.reference == "not-on-htp"
    assert "Det 'det'" in caught.value.cause


@on_htp
def test_where_the_question_to_htp_crashes_the_model_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise WorkerFailed("died of signal 11", "crashed")

    monkeypatch.setattr("optim.jobs.run_job", crash)
    assert main(["qnn", "support", str(graph(tmp_path))]) == 3
    assert "error[htp-not-asked]" in capfd.readouterr().err
