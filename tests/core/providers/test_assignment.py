"""Which nodes may lie on the CPU of a target whose provider leaves shapes there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from optim._engine.backends.session_contract import ran_elsewhere
from optim.errors import OptimError
from optim.providers.assignment import (
    RECORD_ASSIGNMENT,
    assigned_nodes,
    computing_nodes,
    nodes_by_provider,
    provider_shares,
    require_shapes_only,
)
from optim.providers.names import CPU
from optim.target import Target

CUDA, TENSORRT = "CUDAExecutionProvider", "TensorrtExecutionProvider"


@dataclass
class Node:
    name: str
    op_type: str


@dataclass
class Part:
    ep_name: str
    nodes: list[Node]

    def get_nodes(self) -> list[Node]:
        return self.nodes


class RecordedSession:
    """What onnxruntime's record says where there is a GPU: hardware that is not here, and no result."""

    def __init__(self, **on: dict[str, str]) -> None:
        self.parts = [Part(provider, [Node(*one) for one in nodes.items()]) for provider, nodes in on.items()]

    def get_provider_graph_assignment_info(self) -> list[Part]:
        return self.parts

    def get_providers(self) -> list[str]:
        return [CUDA, CPU]


@pytest.fixture
def dynamic(tmp_path: Path) -> Path:
    """y = relu(x) / sqrt(float(shape(x)[0])), and the sum of two integers beside it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], name="shape"),
        helper.make_node("Gather", ["shape", "zero"], ["rows"], name="rows"),
        helper.make_node("Cast", ["rows"], ["number"], name="number", to=TensorProto.FLOAT),
        helper.make_node("Sqrt", ["number"], ["root"], name="root"),
        helper.make_node("Relu", ["x"], ["positive"], name="positive"),
        helper.make_node("Div", ["positive", "root"], ["y"], name="y"),
        helper.make_node("Add", ["ids", "ids"], ["twice"], name="twice"),
    ]
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["n", 2]), value("ids", TensorProto.INT64, ["n"])]
    outputs = [value("y", TensorProto.FLOAT, ["n", 2]), value("twice", TensorProto.INT64, ["n"])]
    zero = helper.make_tensor("zero", TensorProto.INT64, [], [0])
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, [zero]),
        ir_version=10,
        opset_imports=[helper.make_opsetid("", 20)],
    )
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_shapes_and_integers_are_told_from_what_a_model_spends_its_time_in(dynamic: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for key, text in RECORD_ASSIGNMENT.items():
        options.add_session_config_entry(key, text)
    session = onnxruntime.InferenceSession(str(dynamic), options, providers=[CPU])
    nodes = assigned_nodes(session)[CPU]
    assert len(nodes) == 7
    assert computing_nodes(nodes, onnx.load(dynamic)) == [("positive", "Relu"), ("y", "Div")]
    assert nodes_by_provider(session)[CPU] == [name for name, _ in nodes]


def test_nodes_that_the_runtime_made_are_judged_by_their_operator(dynamic: Path) -> None:
    made = [("Unsqueeze_token_1", "Unsqueeze"), ("fused_2", "FusedGemm")]
    assert computing_nodes(made, onnx.load(dynamic)) == [("fused_2", "FusedGemm")]


def test_a_model_whose_shapes_alone_lie_on_the_cpu_is_accepted(dynamic: Path) -> None:
    session = RecordedSession(
        **{CUDA: {"positive": "Relu", "y": "Div"}, CPU: {"shape": "Shape", "rows": "Gather", "root": "Sqrt"}}
    )
    require_shapes_only(session, dynamic)
    assert provider_shares({CUDA: 2, CPU: 3}, CUDA) == {CUDA: 0.4, CPU: 0.6}
    assert provider_shares({}, CUDA) == {CUDA: 1.0}


def test_a_node_that_computes_floats_on_the_cpu_is_named(dynamic: Path) -> None:
    session = RecordedSession(**{CUDA: {"y": "Div"}, CPU: {"shape": "Shape", "positive": "Relu"}})
    with pytest.raises(OptimError, match="left-to-cpu") as caught:
        require_shapes_only(session, dynamic)
    assert "Relu 'positive'" in caught.value.cause
    assert "shape" not in caught.value.cause


def test_what_other_providers_of_the_target_ran_is_on_the_target() -> None:
    target = Target("tensorrt", "tensorrt", TENSORRT, also={CUDA: {}}, shapes_on_cpu=True)
    assert ran_elsewhere({TENSORRT: 0.5, CUDA: 0.3, CPU: 0.2}, target) == ""
    assert ran_elsewhere({CUDA: 1.0}, target) == ""
    assert "0.0% of its nodes" in ran_elsewhere({CPU: 1.0}, target)
    strict = Target("cuda", "cuda", CUDA)
    assert "20.0% on CPUExecutionProvider" in ran_elsewhere({CUDA: 0.8, CPU: 0.2}, strict)
