"""Every rule: it fires, computes the same, HTP takes what it made, and it leaves alone what it does not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper
from qnn_models import QNN, build, context, normal, on_htp, operators, relative_l2, run

from optim import Model
from optim.onnx import infer_shapes_again
from optim_qnn.htp.ask_htp import ask_htp
from optim_qnn.rewrites.rules import RULES, rewrite, rule_for

RNG = np.random.default_rng(0)
POINTS = np.linspace(-3, 3, 24, dtype=np.float32).reshape(1, 2, 3, 4)
PLACES = np.asarray([[0, 1], [0, 0]])
ALL_PLACES = np.asarray([[0, 0], [0, 1]])


def one(operator, inputs=("x",), **attributes):
    return [helper.make_node(operator, list(inputs), ["y"], name="n", **attributes)]


CASES = {
    "Celu": (one("Celu", alpha=2.0), {}),
    "Celu of 1": (one("Celu"), {}),
    "Softsign": (one("Softsign"), {}),
    "Sinh": (one("Sinh"), {}),
    "Cosh": (one("Cosh"), {}),
    "Trilu": (one("Trilu", ("x", "k")), {"k": np.asarray(1)}),
    "Trilu lower": (one("Trilu", upper=0), {}),
    "ReduceL1": (one("ReduceL1", ("x", "axes")), {"axes": np.asarray([2])}),
    "ReduceSumSquare": (one("ReduceSumSquare", ("x", "axes"), keepdims=0), {"axes": np.asarray([-1])}),
    "ReduceLogSum": (
        [helper.make_node("Exp", ["x"], ["e"], name="e"), *one("ReduceLogSum", ("e", "axes"))],
        {"axes": np.asarray([1])},
    ),
    "GatherND": (one("GatherND", ("x", "places")), {"places": PLACES}),
    "GatherND of all": (one("GatherND", ("x", "places")), {"places": ALL_PLACES}),
    "LayerNormalization": (
        one("LayerNormalization", ("x", "scale", "bias"), axis=2),
        {"scale": 1 + normal(RNG, 3, 4) / 9, "bias": normal(RNG, 3, 4)},
    ),
    "GroupNormalization": (
        one("GroupNormalization", ("x", "scale", "bias"), num_groups=1),
        {"scale": normal(RNG, 2), "bias": normal(RNG, 2)},
    ),
    "Clip": (
        [helper.make_node("ReduceMin", ["x"], ["low"], name="low", keepdims=0), *one("Clip", ("z", "low", ""))],
        {},
    ),
}


def case(name: str, folder: Path) -> tuple[Model, dict]:
    nodes, weights = CASES[name]
    inputs = {"x": POINTS.shape, **({"z": POINTS.shape} if name == "Clip" else {})}
    model = build(folder, nodes, inputs, {"y": [None] * rank(name)}, weights, opset=21)
    return model, dict.fromkeys(inputs, POINTS)


def rank(name: str) -> int:
    return {"ReduceSumSquare": 3, "GatherND": 3, "GatherND of all": 3}.get(name, 4)


@pytest.mark.parametrize("name", CASES)
def test_a_rewritten_operator_computes_the_same(name: str, tmp_path: Path) -> None:
    model, feeds = case(name, tmp_path)
    graph = model.ir()
    infer_shapes_again(graph)
    before = operators(model)
    assert sum(rewrite(graph).values()) == 1
    assert rewrite(graph) == {}
    made = context(tmp_path).save(graph, model)
    assert name.split()[0] not in operators(made) or name == "LayerNormalization"
    assert operators(made) != before
    assert relative_l2(run(model, feeds), run(made, feeds)) < 1e-5


@on_htp
@pytest.mark.parametrize("name", CASES)
def test_htp_takes_what_a_rule_made_and_nothing_of_what_it_was(name: str, tmp_path: Path) -> None:
    model, _ = case(name, tmp_path)
    graph = model.ir()
    infer_shapes_again(graph)
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    ir.save(graph, before)
    rewrite(graph)
    ir.save(graph, after)
    asked = ask_htp(after, QNN)
    assert not asked.failure
    assert not asked.left
    was = ask_htp(before, QNN)
    if name not in ("GatherND", "GatherND of all", "Celu of 1"):  # of floats HTP has it, of masks it has not
        assert was.left.get("n") or was.failure


@pytest.mark.parametrize(
    ("nodes", "weights"),
    [
        (one("Clip", ("x", "low")), {"low": np.float32(0)}),
        (one("Gemm", ("x", "w")), {"w": np.ones((4, 4), np.float32)}),
        (one("Transpose", perm=[1, 0]), {}),
        (one("Reshape", ("x", "shape")), {"shape": np.asarray([-1])}),
        (one("Softmax"), {}),
    ],
)
def test_what_no_rule_fits_is_left_alone(nodes, weights, tmp_path: Path) -> None:
    out = [None] if nodes[0].op_type == "Reshape" else [None, None]
    model = build(tmp_path, nodes, {"x": [2, 4]}, {"y": out}, weights)
    graph = model.ir()
    infer_shapes_again(graph)
    assert rewrite(graph) == {}
    assert {rule_for(node) for node in graph.graph} == {""}


def test_alpha_and_beta_go_into_the_weights(tmp_path: Path) -> None:
    weights = {"w": normal(RNG, 4, 3), "b": normal(RNG, 3)}
    model = build(tmp_path, one("Gemm", ("x", "w", "b"), alpha=0.5, beta=2.0), {"x": [2, 4]}, {"y": [2, 3]}, weights)
    graph = model.ir()
    infer_shapes_again(graph)
    assert rewrite(graph) == {"Gemm": 1}
    made = context(tmp_path).save(graph, model)
    feeds = {"x": normal(RNG, 2, 4)}
    assert relative_l2(run(model, feeds), run(made, feeds)) < 1e-6


def test_many_dimensions_become_few(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "wide"], ["w"], name="w"),
        helper.make_node("Transpose", ["w"], ["t"], name="t", perm=[0, 1, 4, 5, 2, 3]),
        helper.make_node("Reshape", ["t", "flat"], ["y"], name="r"),
    ]
    weights = {"wide": np.asarray([1, 2, 3, 4, 2, 2]), "flat": np.asarray([1, 8, 12])}
    model = build(tmp_path, nodes, {"x": [1, 2, 12, 4]}, {"y": [1, 8, 12]}, weights)
    graph = model.ir()
    infer_shapes_again(graph)
    counts = rewrite(graph)
    assert counts["Transpose"] == 1
    made = context(tmp_path).save(graph, model)
    feeds = {"x": normal(RNG, 1, 2, 12, 4)}
    assert relative_l2(run(model, feeds), run(made, feeds)) == 0
    assert max(len(value.shape) for node in made.ir().graph for value in node.outputs if value.shape) <= 5


def test_a_mask_of_minus_infinity_is_brought_to_where_softmax_ends(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Where", ["seen", "zero", "low"], ["mask"], name="where"),
        helper.make_node("Add", ["x", "mask"], ["scores"], name="add"),
        helper.make_node("Softmax", ["scores"], ["s"], name="softmax", axis=-1),
        helper.make_node("IsNaN", ["s"], ["nan"], name="isnan"),
        helper.make_node("Where", ["nan", "zero", "s"], ["y"], name="guard"),
    ]
    weights = {"zero": np.float32(0), "low": np.float32(-np.inf)}
    model = build(tmp_path, nodes, {"x": [2, 6], "seen": [2, 6]}, {"y": [2, 6]}, weights, kinds={"seen": "b1"})
    graph = model.ir()
    infer_shapes_again(graph)
    assert rewrite(graph) == {"Softmax guard": 1, "masks": 1}
    made = context(tmp_path).save(graph, model)
    assert operators(made) == ["Where", "Add", "Softmax"]
    feeds = {"x": normal(RNG, 2, 6), "seen": np.asarray([[1, 1, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0]], np.bool_)}
    assert relative_l2(run(model, feeds), run(made, feeds)) < 1e-6


def test_a_large_negative_weight_that_is_no_mask_is_left_alone(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Add", ["x", "w"], ["scores"], name="add"),
        helper.make_node("Softmax", ["scores"], ["y"], name="softmax", axis=-1),
    ]
    model = build(tmp_path, nodes, {"x": [2, 3]}, {"y": [2, 3]}, {"w": np.asarray([-5000, -4999, 7], np.float32)})
    assert rewrite(model.ir()) == {}


def test_every_rule_has_a_summary_and_a_docstring_with_before_and_after() -> None:
    import importlib

    modules = {rule.rewrite.__module__ for rule in RULES} | {"optim_qnn.rewrites.finite_masks"}
    assert len(modules) == len(RULES) + 1
    for name in modules:
        text = importlib.import_module(name).__doc__ or ""
        assert "Before::" in text, name
        assert "After::" in text, name
    assert all(rule.summary for rule in RULES)
