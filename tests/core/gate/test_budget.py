"""What is accepted, and the words for what is not; the negative controls of the gate on a real graph."""

from __future__ import annotations

import math

import numpy as np
import onnx
import onnxruntime
import pytest
from feed_models import FLOAT, build, constant, value
from onnx import helper, numpy_helper

from optim._engine.gate.budget import Budget
from optim._engine.gate.outputs import compare_output, compare_sample
from optim._engine.search.settings import DEFAULT_MAX_DRIFT

LOSSLESS = Budget(None, 1e-4)
LOSSY = Budget(0.05, 1e-4)


def off_by(share, name="y"):
    reference = np.ones(100)
    return compare_output(name, reference, reference * (1 + share))


def test_a_chain_without_a_lossy_pass_is_held_to_the_tolerance_whatever_the_budget():
    assert LOSSY.limit(lossy=False) == 1e-4
    assert LOSSY.objection([off_by(1e-3)], lossy=False).text == (
        "drift 0.001 at output 'y' is beyond what rounding explains (0.0001)"
    )
    assert LOSSY.objection([off_by(9e-5)], lossy=False).text == ""


def test_a_lossy_chain_is_held_to_the_budget():
    assert LOSSY.limit(lossy=True) == 0.05
    assert LOSSY.objection([off_by(0.049)], lossy=True).text == ""
    assert LOSSY.objection([off_by(0.06)], lossy=True).text == "drift 0.06 at output 'y' is beyond the budget (0.05)"


def test_lossless_gives_a_lossy_chain_no_more_than_rounding():
    assert LOSSLESS.limit(lossy=True) == 1e-4
    assert "what rounding explains" in LOSSLESS.objection([off_by(0.01)], lossy=True).text


def test_a_budget_below_rounding_is_rounding():
    assert Budget(1e-9, 1e-4).limit(lossy=True) == 1e-4
    assert 0 < DEFAULT_MAX_DRIFT < 1


def test_the_worst_output_is_named():
    assert "at output 'b'" in LOSSY.objection([off_by(0.1, "a"), off_by(0.3, "b"), off_by(0.0, "c")], lossy=True).text


def test_an_incomparable_output_is_an_objection_under_any_budget():
    generous = Budget(math.inf, math.inf)
    nan = compare_output("y", np.ones(2), np.array([1, np.nan]))
    shape = compare_output("z", np.ones(2), np.ones(3))
    assert generous.objection([off_by(0), nan], lossy=True).text == "output 'y': 1 elements became NaN"
    assert generous.objection([shape], lossy=True).text == "output 'z': shape [2] became [3]"


# Negative controls: damage to a real graph, run in the real runtime, must be an objection.


def network(damage=lambda weights: None, outputs=("left", "right")):
    """Two outputs of one shape over two weights each."""
    rng = np.random.default_rng(0)
    weights = {name: rng.standard_normal((16, 16)).astype(np.float32) for name in ("w0", "w1", "w2")}
    damage(weights)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["hidden"]),
        helper.make_node("Tanh", ["hidden"], ["active"]),
        helper.make_node("MatMul", ["active", "w1"], [outputs[0]]),
        helper.make_node("MatMul", ["active", "w2"], [outputs[1]]),
    ]
    return build(
        nodes,
        [value("x", FLOAT, ["batch", 16])],
        [value(name, FLOAT, ["batch", 16]) for name in ("left", "right")],
        [constant(name, array) for name, array in weights.items()],
    )


def outputs_of(model: onnx.ModelProto):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)}
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds), strict=True))


def objection_to(model: onnx.ModelProto) -> str:
    found = compare_sample(outputs_of(network()), outputs_of(model), {}, None)
    return LOSSY.objection(found, lossy=False).text


def test_the_same_network_is_no_objection():
    assert objection_to(network()) == ""


def zero(weights):
    weights["w1"][:] = 0


def zero_one_row(weights):
    weights["w2"][3] = 0


def transpose(weights):
    weights["w0"] = np.ascontiguousarray(weights["w0"].T)


def round_to_half(weights):
    weights["w0"] = weights["w0"].astype(np.float16).astype(np.float32)


def poison(weights):
    weights["w2"][0, 0] = np.nan


@pytest.mark.parametrize("damage", [zero, zero_one_row, transpose, round_to_half, poison])
def test_a_damaged_weight_is_an_objection(damage):
    assert objection_to(network(damage))


def test_swapped_outputs_are_an_objection():
    assert "beyond what rounding explains" in objection_to(network(outputs=("right", "left")))


def test_permuted_rows_of_an_output_are_an_objection():
    model = network(outputs=("straight", "right"))
    model.graph.node.append(helper.make_node("Gather", ["straight", "reversed"], ["left"], axis=0))
    model.graph.initializer.append(numpy_helper.from_array(np.array([3, 2, 1, 0]), "reversed"))
    assert "beyond what rounding explains" in objection_to(model)


def test_an_output_in_half_precision_is_an_objection():
    model = network(outputs=("wide", "right"))
    model.graph.node.append(helper.make_node("Cast", ["wide"], ["left"], to=onnx.TensorProto.FLOAT16))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    assert objection_to(model) == "output 'left': dtype float32 became float16"


def test_a_transposed_output_is_an_objection():
    model = network(outputs=("straight", "right"))
    model.graph.node.append(helper.make_node("Transpose", ["straight"], ["left"]))
    del model.graph.output[0].type.tensor_type.shape.dim[:]
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_value = 16
    model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = "batch"
    assert objection_to(model) == "output 'left': shape [4, 16] became [16, 4]"
