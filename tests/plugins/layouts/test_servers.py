"""The layouts ``mlflow`` and ``triton``, opened by MLflow and by Triton's own protobuf."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from optim import OptimError, SessionConfig, Target, TensorInfo
from optim.layout import Result
from optim.onnx import describe_model
from optim.onnx.sessions import PLAIN_CPU
from optim_plugins.layouts.kinds.mlflow import MLflow
from optim_plugins.layouts.kinds.triton import Triton
from optim_plugins.layouts.options import TritonOptions
from optim_testing import LayoutConformance, models

pytestmark = pytest.mark.slow

TUNED = SessionConfig(
    {
        "intra_op_num_threads": 1,
        "execution_mode": "ORT_PARALLEL",
        "graph_optimization_level": "ORT_ENABLE_EXTENDED",
        "enable_mem_pattern": False,
    },
    {"session.intra_op.allow_spinning": "0"},
    ("ConstantFolding",),
)


class _Tuned(LayoutConformance):
    plugin = "layouts"

    @pytest.fixture
    def settings(self):
        return TUNED

    @pytest.fixture
    def python(self, consumers):
        return consumers


class TestMLflow(_Tuned):
    @pytest.fixture
    def layout_class(self):
        return MLflow


class TestTriton(_Tuned):
    @pytest.fixture
    def layout_class(self):
        return Triton


@pytest.fixture
def tuned(tmp_path):
    (tmp_path / "run").mkdir()
    path = models.mlp(tmp_path).rename(tmp_path / "run" / "model.onnx")
    return Result(path.parent, describe_model(path, session=TUNED), PLAIN_CPU)


def test_mlflow_hands_on_all_but_the_flags_of_memory(tuned, tmp_path):
    laid = MLflow().write(tuned, tmp_path, None)
    assert laid.session.session_options == {
        "intra_op_num_threads": 1,
        "execution_mode": "ORT_PARALLEL",
        "graph_optimization_level": "ORT_ENABLE_EXTENDED",
    }
    lines = (tmp_path / "MLmodel").read_text().splitlines()
    flavor = json.loads(next(line for line in lines if line.startswith("flavors: "))[9:])["onnx"]
    assert flavor["onnx_session_options"] == {
        "intra_op_num_threads": 1,
        "execution_mode": "PARALLEL",
        "graph_optimization_level": 2,
        "extra_session_config": {
            "session.intra_op.allow_spinning": "0",
            "optimization.disable_specified_optimizers": "ConstantFolding",
        },
    }


def test_triton_is_told_what_its_backend_knows(tuned, tmp_path):
    laid = Triton().write(tuned, tmp_path, TritonOptions(name="net", instances=2, batch=4))
    text = (tmp_path / "net" / "config.pbtxt").read_text()
    for line in (
        "max_batch_size: 4",
        "instance_group [ { count: 2 kind: KIND_CPU } ]",
        "optimization { graph { level: 1 } }",
        'parameters { key: "execution_mode" value: { string_value: "1" } }',
        'parameters { key: "enable_mem_pattern" value: { string_value: "0" } }',
    ):
        assert line in text.splitlines()
    assert laid.session == SessionConfig(TUNED.session_options)


def config_of(inputs, outputs, tmp_path, monkeypatch):
    """The configuration for a graph with these inputs and outputs, and what is said of it."""
    monkeypatch.setattr(
        "optim_plugins.layouts.kinds.triton.place_graph", lambda *_: (tmp_path / "model").mkdir(exist_ok=True)
    )
    model = SimpleNamespace(inputs=inputs, outputs=outputs, session=SessionConfig())
    laid = Triton().write(SimpleNamespace(model=model, target=PLAIN_CPU), tmp_path, TritonOptions())
    return (tmp_path / "model" / "config.pbtxt").read_text(), laid.notes


def test_a_graph_without_a_batch_everywhere_is_run_request_by_request(tmp_path, monkeypatch):
    x, count = TensorInfo("x", "float32", ("batch", 4)), TensorInfo("count", "int64", ())
    text, notes = config_of((x, TensorInfo("size", "int64", (1,))), (x,), tmp_path, monkeypatch)
    assert "max_batch_size: 0" in text
    assert "dynamic_batching" not in text
    assert '"x" data_type: TYPE_FP32 dims: [ -1, 4 ]' in text
    assert any("one by one" in note for note in notes)
    with pytest.raises(OptimError, match="'count' has no dimensions"):
        config_of((x, count), (x,), tmp_path, monkeypatch)


def test_strings_are_a_type_of_triton(tmp_path, monkeypatch):
    path = tmp_path / "label.onnx"
    onnx.save(onnx.parser.parse_model(LABELS), path)
    model = describe_model(path)
    text, _ = config_of(model.inputs, model.outputs, tmp_path, monkeypatch)
    assert '"y" data_type: TYPE_STRING' in text


LABELS = """
<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 3]>
labels (int64[n] x) => (string[n] y) { y = ai.onnx.ml.LabelEncoder <keys_int64s = [0], values_strings = ["a"]> (x) }
"""


def test_a_type_that_triton_does_not_have_is_refused(tmp_path, monkeypatch):
    odd = TensorInfo("odd", "complex64", ("batch",))
    with pytest.raises(OptimError, match="layout-unknown-type"):
        config_of((odd,), (odd,), tmp_path, monkeypatch)


def test_a_configuration_that_is_not_the_graphs_is_noticed(tuned, consumers, tmp_path):
    from optim.layout import open_laid

    laid = Triton().write(tuned, tmp_path, TritonOptions())
    file = tmp_path / "model" / "config.pbtxt"
    file.write_text(file.read_text().replace("dims: [ 32 ]", "dims: [ 33 ]"))
    with pytest.raises(OptimError, match="inputs of the configuration are"):
        open_laid(Triton(), laid, tmp_path, [], consumers)


def test_a_size_that_onnxruntime_infers_is_in_the_configuration(consumers, tmp_path):
    from optim.layout import open_laid

    (tmp_path / "run").mkdir()
    path = tmp_path / "run" / "model.onnx"
    onnx.save(onnx.parser.parse_model(INFERRED), path)
    laid = Triton().write(Result(path.parent, describe_model(path), PLAIN_CPU), tmp_path, TritonOptions())
    file = tmp_path / "model" / "config.pbtxt"
    assert 'name: "y" data_type: TYPE_FP32 dims: [ 4 ]' in file.read_text()
    opened = open_laid(Triton(), laid, tmp_path, [{"x": np.ones((2, 4), np.float32)}], consumers)
    assert opened.outputs[0]["y"].shape == (2, 4)
    file.write_text(file.read_text().replace("dims: [ 4 ]", "dims: [ -1 ]"))  # as a server refuses it
    with pytest.raises(OptimError, match="inputs of the configuration are"):
        open_laid(Triton(), laid, tmp_path, [], consumers)


INFERRED = """
<ir_version: 8, opset_import: ["" : 17]>
infers (float[n, 4] x) => (float[n, size] y) { y = Relu (x) }
"""


@pytest.mark.parametrize("layout", [Triton(), MLflow()])
def test_a_result_for_another_runtime_is_refused(tuned, tmp_path, layout):
    elsewhere = replace(tuned, target=Target("openvino", "openvino", runtime="openvino"))
    with pytest.raises(OptimError, match="it runs on openvino; "):
        layout.write(elsewhere, tmp_path / "out", TritonOptions())
    assert not (tmp_path / "out").exists()
