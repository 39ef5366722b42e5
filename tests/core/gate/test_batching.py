"""A sample's answer alone, in a batch, and padded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from optim._engine.compare.unseen import batch_drift
from optim._engine.gate.budget import Budget
from optim._engine.gate.drift import BatchDrift, OutputComparison
from optim.arrays import Array
from optim.model import SessionConfig, TensorInfo
from optim.onnx.backend import OnnxRuntimeSession
from optim.onnx.sessions import PLAIN_CPU, open_session

WIDTH = 8
X = TensorInfo("x", "float32", ("batch", "sequence", WIDTH))
MASK = TensorInfo("attention_mask", "int64", ("batch", "sequence"))


def opened(
    folder: Path, nodes: list[onnx.NodeProto], weights: Mapping[str, Array], *, masked: bool
) -> OnnxRuntimeSession:
    value = helper.make_tensor_value_info
    inputs = [value("x", TensorProto.FLOAT, ["batch", "sequence", WIDTH])]
    inputs += [value("attention_mask", TensorProto.INT64, ["batch", "sequence"])] if masked else []
    graph = helper.make_graph(
        nodes,
        "batching",
        inputs,
        [value("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / "model.onnx")
    return OnnxRuntimeSession(open_session(folder / "model.onnx", SessionConfig(), PLAIN_CPU), "CPUExecutionProvider")


def sample(seed: int, length: int = 6, *, masked: bool = False) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    x = (random.standard_normal((1, length, WIDTH)) * 10.0**seed).astype(np.float32)
    return {"x": x, **({"attention_mask": np.ones((1, length), np.int64)} if masked else {})}


WEIGHT = {"w": np.random.default_rng(9).standard_normal((WIDTH, 4)).astype(np.float32)}
PLAIN = [helper.make_node("MatMul", ["x", "w"], ["y"])]
DYNAMIC = [
    helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "scale", "zero"]),
    helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["rounded"]),
    helper.make_node("MatMul", ["rounded", "w"], ["y"]),
]
MEAN = [
    helper.make_node("Cast", ["attention_mask"], ["kept"], to=TensorProto.FLOAT),
    helper.make_node("Unsqueeze", ["kept", "last"], ["column"]),
    helper.make_node("Mul", ["x", "column"], ["visible"]),
    helper.make_node("ReduceSum", ["visible", "axis"], ["sum"], keepdims=0),
    helper.make_node("ReduceSum", ["kept", "axis"], ["count"], keepdims=1),
    helper.make_node("Div", ["sum", "count"], ["y"]),
]
BLIND_MEAN = [helper.make_node("ReduceMean", ["x"], ["y"], axes=[1], keepdims=0)]
AXES = {"last": np.array([-1]), "axis": np.array([1])}


def test_ranges_taken_from_the_whole_run_move_a_sample_in_a_batch(tmp_path: Path) -> None:
    samples = [sample(0), sample(1)]
    plain = batch_drift(opened(tmp_path, PLAIN, WEIGHT, masked=False), [X], samples)
    assert plain.rows == 2 and plain.batched is not None and plain.batched < 1e-6
    moved = batch_drift(opened(tmp_path, DYNAMIC, WEIGHT, masked=False), [X], samples)
    assert moved.batched is not None and moved.batched > 0.02
    assert moved.padded is None and "no mask" in moved.notes[0]


@pytest.mark.parametrize(("nodes", "holds"), [(MEAN, True), (BLIND_MEAN, False)])
def test_padding_moves_what_does_not_look_at_the_mask(tmp_path: Path, nodes: list[onnx.NodeProto], holds: bool) -> None:
    session = opened(tmp_path, nodes, AXES if holds else {}, masked=True)
    found = batch_drift(session, [X, MASK], [sample(0, masked=True)])
    assert found.padding == 3 and found.padded is not None
    assert (found.padded < 1e-6) is holds
    assert found.batched is None and "no two samples" in found.notes[0]


def test_a_fixed_batch_and_samples_of_other_shapes_are_said(tmp_path: Path) -> None:
    session = opened(tmp_path, PLAIN, WEIGHT, masked=False)
    fixed = batch_drift(session, [TensorInfo("x", "float32", (1, 6, WIDTH))], [sample(0), sample(1)])
    assert fixed.batched is None and "no dynamic first dimension" in fixed.notes[0]
    others = batch_drift(session, [X], [sample(0, 5), sample(1, 6)])
    assert others.batched is None and "no two samples have the same shapes" in others.notes[0]


def test_the_limit_is_held_and_names_what_moves() -> None:
    budget = Budget(0.05, 1e-4, batch_invariant=0.01)
    assert not budget.batch_objection(BatchDrift(0.009, 0.002, 4, 8))
    assert "moves by 0.02 in a batch" in budget.batch_objection(BatchDrift(0.02, 0.002, 4, 8))
    assert "moves by 0.03 with padding" in budget.batch_objection(BatchDrift(None, 0.03, 0, 8))
    assert not Budget(0.05, 1e-4).batch_objection(BatchDrift(0.5, 0.5, 4, 8))


@pytest.mark.parametrize("lossy", [True, False])
def test_an_unseen_sample_refuses_what_drifts_far_beyond_the_limit(lossy: bool) -> None:
    def objection(**found: object) -> str:
        one = OutputComparison("y", "float32", (1, 4), sample="with 8 masked positions behind it")
        return Budget(0.05, 1e-4).unseen_objection([replace(one, **found)], lossy)

    far = 0.11 if lossy else 0.011
    assert not objection(relative_error=0.9 * far, rounding_excess=90.0)
    refused = objection(relative_error=far, rounding_excess=110.0)
    assert f"drift {far:.3g} at output 'y' with 8 masked positions behind it" in refused
    assert ("twice the budget (0.1)" if lossy else "what rounding explains (0.01)") in refused
    assert "3 elements became NaN" in objection(problem="3 elements became NaN")
    changed = objection(mismatched=0.5, relative_error=0.5, rounding_excess=math.inf)
    assert bool(changed) is not lossy
