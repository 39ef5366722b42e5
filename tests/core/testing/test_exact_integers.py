"""The kit computes integers exactly, whatever the processor's kernels lose, and a wrong weight still shows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim import PassResult, Target
from optim.backend import Session
from optim.model import Model
from optim.onnx.files import describe_model
from optim_testing import Trial
from optim_testing.exact_integers import OnnxRuntimeCpu, exact_integers, saturates

CPU = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")
SIZE = 64
LARGE = np.random.default_rng(0).integers(200, 256, (4, SIZE)).astype(np.uint8)
WEIGHT = np.random.default_rng(1).integers(60, 128, (SIZE, SIZE)).astype(np.int8)
"""Every pair of their products is beyond 16 bits."""

STEP = 1 / 64


def product(folder: Path, operator: str) -> Model:
    """``x`` times the weight, each of its integers a step, as an operator of integers computes it."""
    scalars = {
        "one": np.float32(1),
        "step": np.float32(STEP),
        "range": np.float32(128),
        "zero": np.uint8(0),
        "signed_zero": np.int8(0),
    }
    weights = {"w": WEIGHT, "kernel": np.ascontiguousarray(WEIGHT.T[:, :, None, None])}
    values = [numpy_helper.from_array(np.asarray(array), name) for name, array in (scalars | weights).items()]
    contrib = {"domain": "com.microsoft"}
    written = {
        "MatMulInteger": [
            ("QuantizeLinear", "x one zero", "q", {}),
            ("MatMulInteger", "q w zero", "sums", {}),
            ("Cast", "sums", "floats", {"to": TensorProto.FLOAT}),
            ("Mul", "floats step", "y", {}),
        ],
        "MatMulIntegerToFloat": [
            ("QuantizeLinear", "x one zero", "q", {}),
            ("MatMulIntegerToFloat", "q w one step zero signed_zero", "y", contrib),
        ],
        "DynamicQuantizeMatMul": [("DynamicQuantizeMatMul", "x w step", "y", contrib)],
        "QLinearMatMul": [
            ("QuantizeLinear", "x one zero", "q", {}),
            ("QLinearMatMul", "q one zero w step signed_zero range zero", "sums", {}),
            ("DequantizeLinear", "sums range zero", "y", {}),
        ],
        "DequantizeLinear": [
            ("QuantizeLinear", "x one zero", "q", {}),
            ("DequantizeLinear", "q one zero", "a", {}),
            ("DequantizeLinear", "w step signed_zero", "b", {}),
            ("MatMul", "a b", "y", {}),
        ],
        "QLinearConv": [
            ("Unsqueeze", "x last", "image", {}),
            ("QuantizeLinear", "image one zero", "q", {}),
            ("QLinearConv", "q one zero kernel step signed_zero range zero", "sums", {}),
            ("DequantizeLinear", "sums range zero", "result", {}),
            ("Squeeze", "result last", "y", {}),
        ],
    }[operator]
    values.append(numpy_helper.from_array(np.array([2, 3]), "last"))
    nodes = [helper.make_node(name, takes.split(), [gives], **more) for name, takes, gives, more in written]
    return saved(folder / f"{operator}.onnx", nodes, values)


def saved(path: Path, nodes: list[onnx.NodeProto], values: list[onnx.TensorProto]) -> Model:
    used = {name for node in nodes for name in node.input}
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", SIZE]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [value for value in values if value.name in used])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return describe_model(path)


def outputs(backend: OnnxRuntimeCpu, model: Model) -> np.ndarray:
    with backend.open(model, CPU) as session:
        return np.asarray(session.run({"x": LARGE.astype(np.float32)})["y"], np.float64)


@pytest.mark.parametrize(
    ("operator", "rounding"),
    [
        ("MatMulInteger", 1e-6),
        ("MatMulIntegerToFloat", 1e-6),
        ("DynamicQuantizeMatMul", 1 / 255),
        ("QLinearMatMul", 1 / 128),
        ("QLinearConv", 1 / 128),
        ("DequantizeLinear", 1e-6),
    ],
)
def test_no_pair_of_products_is_lost(operator: str, rounding: float, tmp_path: Path) -> None:
    exact = exact_integers(product(tmp_path, operator), tmp_path)
    expected = LARGE.astype(np.float64) @ WEIGHT.astype(np.float64) * STEP
    found = outputs(exact.backend, exact.model)
    assert np.abs(found / expected - 1).max() < rounding


def test_a_backend_is_said_to_saturate_where_its_sums_do(tmp_path: Path) -> None:
    expected = LARGE.astype(np.float64) @ WEIGHT.astype(np.float64) * STEP
    found = outputs(OnnxRuntimeCpu(), product(tmp_path, "MatMulInteger"))
    assert saturates(OnnxRuntimeCpu(), CPU, tmp_path) == (np.abs(found / expected - 1).max() > 0.01)


def test_a_model_without_integers_is_left_to_its_backend(tmp_path: Path) -> None:
    assert exact_integers(floats(tmp_path), tmp_path) is None


class Loses(OnnxRuntimeCpu):
    """Has kernels that lose a tenth of every sum of integers, on every processor."""

    def open(self, model: Model, target: Target) -> Session:
        session = super().open(model, target)
        if any(node.op_type == "DequantizeLinear" for node in model.ir_to_read().graph):
            run = session.run
            session.run = lambda feeds: {name: array * 0.9 for name, array in run(feeds).items()}
        return session


FLOATS = np.random.default_rng(2).normal(size=(SIZE, SIZE)).astype(np.float32)


def floats(folder: Path) -> Model:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return saved(folder / "floats.onnx", [node], [numpy_helper.from_array(FLOATS, "w")])


def rounded(folder: Path, weight: np.ndarray) -> PassResult:
    scale = np.abs(weight).max() / 127
    values = [numpy_helper.from_array(np.rint(weight / scale).astype(np.int8), "w")]
    values += [numpy_helper.from_array(np.asarray(scale, np.float32), "scale")]
    nodes = [helper.make_node("DequantizeLinear", ["w", "scale"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    return PassResult(saved(folder / "rounded.onnx", nodes, values), changed=True)


def test_an_honest_pass_is_not_held_to_what_kernels_lose_and_a_wrong_weight_is(tmp_path: Path) -> None:
    backend = Loses()
    trial = Trial.of(floats(tmp_path).path, tmp_path / "trial", CPU, backend)
    assert saturates(backend, CPU, tmp_path)
    assert trial.drift(rounded(tmp_path, FLOATS)).relative_error < 0.02
    swapped = FLOATS.copy()
    swapped[:, [3, 4]] = swapped[:, [4, 3]]
    assert trial.drift(rounded(tmp_path, swapped)).relative_error > 0.5  # two columns of 64 are unrelated
