"""``ort.clean``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from ort_models import (
    EXPORTS,
    apply,
    build,
    context,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    parsed,
    proto,
    random_weight,
    relative_l2,
)

from optim_plugins.ort.prepare.clean import Clean

_TORCHSCRIPT = tuple(name for name in EXPORTS if name.endswith(".ts") and not name.startswith("convnet"))


@pytest.mark.parametrize("name", _TORCHSCRIPT)
def test_an_export_by_torchscript_loses_nodes_and_computes_the_same(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    result = apply(Clean, model, tmp_path)
    assert result.changed
    assert result.counts["nodes removed"] > 50
    assert len(operators(model)) - len(operators(result.model)) == result.counts["nodes removed"]
    assert names_and_shapes(result.model) == names_and_shapes(model)
    for lengths in ({}, {"batch": 1, "sequence": 1}, {"batch": 3, "sequence": 7}):
        assert relative_l2(model, result.model, feeds_for(name, **lengths)) <= 1e-6


def test_no_weight_is_written(tmp_path: Path) -> None:
    model = export("gpt2.ts", tmp_path)
    before = set((tmp_path / "store").glob("*.data"))
    sizes = sum(path.stat().st_size for path in before)
    apply(Clean, model, tmp_path)
    written = set((tmp_path / "store").glob("*.data")) - before
    assert sum(path.stat().st_size for path in written) < sizes / 10


def test_a_second_time_there_is_nothing_to_do_and_it_says_so(tmp_path: Path) -> None:
    once = apply(Clean, export("bert.ts", tmp_path), tmp_path)
    twice = apply(Clean, once.model, tmp_path)
    assert not twice.changed
    assert twice.notes == ("nothing to fold, merge or drop",)
    assert twice.model is once.model


def test_the_input_model_is_not_touched(tmp_path: Path) -> None:
    model = export("bert.ts", tmp_path)
    before = model.path.read_bytes()
    apply(Clean, model, tmp_path)
    assert model.path.read_bytes() == before


def test_equal_nodes_become_one(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"]),
        helper.make_node("Tanh", ["x"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    model = build(tmp_path, nodes, {}, {"x": [2, 3]}, {"y": [2, 3]})
    result = apply(Clean, model, tmp_path)
    assert operators(result.model) == ["Tanh", "Add"]
    assert relative_l2(model, result.model, {"x": random_weight(2, 3)}) == 0


def test_weights_listed_as_inputs_become_constants_that_the_runtime_folds(tmp_path: Path) -> None:
    weights = {"w": random_weight(8, 8), "b": random_weight(8, seed=1)}
    nodes = [helper.make_node("Neg", ["w"], ["v"]), helper.make_node("Gemm", ["x", "v", "b"], ["y"])]
    model = build(tmp_path, nodes, weights, {"x": [2, 8]}, {"y": [2, 8]}, ir_version=3, weights_are_inputs=True)
    result = apply(Clean, model, tmp_path)
    assert result.counts["weights that were inputs"] == 2
    assert [value.name for value in proto(result.model).graph.input] == ["x"]
    assert result.model.ir_version == 4
    assert relative_l2(model, result.model, {"x": random_weight(2, 8, seed=2)}) == 0
    assert len(operators(model)) == 2
    assert len(_as_the_runtime_runs_it(str(result.model.path), tmp_path)) == 1


def test_an_input_with_a_default_stays_where_weights_are_no_inputs(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17], ir_version: 8> g (float[1, 2] x, float[1, 2] state) => (float[1, 2] y)
        <float[1, 2] state = {0, 0}, float[2, 2] w = {1, 2, 3, 4}, float[2, 2] v = {1, 0, 1, 0}> {
            unused = Neg (x)
            a = MatMul (x, w)
            b = MatMul (state, v)
            y = Add (a, b)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert result.counts["weights that were inputs"] == 0
    assert relative_l2(model, result.model, {"x": random_weight(1, 2), "state": random_weight(1, 2)}) == 0


def _as_the_runtime_runs_it(path: str, folder: Path) -> list[str]:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return [node.op_type for node in onnx.load(folder / "optimized.onnx").graph.node]


def test_a_large_transposed_weight_is_folded_when_asked_for_only(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Gather", ["w", "i"], ["e"]),
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["e", "t"], ["y"]),
    ]
    weights = {"w": random_weight(300, 64), "i": np.array([3, 7], np.int64)}
    model = build(tmp_path, nodes, weights, {"x": [1]}, {"y": [2, 300]})
    assert not apply(Clean, model, tmp_path).changed
    result = apply(Clean, model, tmp_path, fold_transposes=True)
    assert result.counts["Transpose folded"] == 1
    assert operators(result.model) == ["Gather", "MatMul"]
    assert relative_l2(model, result.model, {"x": random_weight(1)}) <= 1e-6


def test_auto_never_writes_transposed_weights(tmp_path: Path) -> None:
    model = export("gpt2.dynamo", tmp_path)
    candidates = list(Clean().candidates(model, context(tmp_path).target, context(tmp_path)))
    assert [candidate.model_dump() for candidate in candidates] == [{"fold_transposes": False}]


def test_two_outputs_of_a_body_stay_two_values(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17], ir_version: 8>
        g (float[1] first, float[3, 1] x) => (float[1] last, float[3, 1] all) {
            last, all = Scan <num_scan_inputs = 1,
                body = b (float[1] sum, float[1] next) => (float[1] s, float[1] out) {
                    s = Add (sum, next)
                    out = Identity (s)
                }> (first, x)
            unused = Neg (x)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert result.counts["nodes removed"] == 1
    feeds = {"first": np.zeros(1, np.float32), "x": np.array([[1], [2], [4]], np.float32)}
    session = ort.InferenceSession(result.model.path)
    last, every = session.run(None, feeds)
    assert last.tolist() == [7.0]
    assert every.reshape(-1).tolist() == [1.0, 3.0, 7.0]


def test_a_constant_branch_that_gives_what_lies_outside_takes_the_place_of_the_if(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17], ir_version: 8>
        g (float[2] x) => (float[2] y, float[2] z) <bool yes = {1}> {
            a = Relu (x)
            y, z = If <then_branch = t () => (float[2] a1, float[2] a2) {
                    a1 = Identity (a)
                    a2 = Identity (a1)
                }, else_branch = e () => (float[2] b1, float[2] b2) {
                    b1 = Neg (x)
                    b2 = Neg (b1)
                }> (yes)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert "If" not in operators(result.model)
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert relative_l2(model, result.model, {"x": np.array([-1.0, 2.0], np.float32)}) == 0


def test_values_of_two_branches_may_have_the_same_name(tmp_path: Path) -> None:
    taken = "then_branch = t () => (float[2] r) {{ h = Neg (x) r = Add (h, {}) }}"
    other = "else_branch = e () => (float[2] q) { q = Abs (x) }"
    first, second = f"<{taken.format('x')}, {other}>", f"<{taken.format('y')}, {other}>"
    text = f"""<opset_import: ["": 17], ir_version: 8> g (float[2] x) => (float[2] z) <bool yes = {{1}}> {{
        y = If {first} (yes)
        z = If {second} (yes)
    }}"""
    model = parsed(tmp_path, text)
    result = apply(Clean, model, tmp_path)
    assert "If" not in operators(result.model)
    assert relative_l2(model, result.model, {"x": np.array([-1.0, 2.0], np.float32)}) == 0


def test_sequences_keep_their_type(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 12], ir_version: 7> g (float[2] x) => (float[2] y) <int64 at = {0}> {
            empty = SequenceEmpty ()
            list = SequenceInsert (empty, x)
            unused = Neg (x)
            y = SequenceAt (list, at)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert result.counts["nodes removed"] == 1
    assert relative_l2(model, result.model, {"x": np.array([-1.0, 2.0], np.float32)}) == 0


def test_a_split_into_a_sequence_of_unknown_sizes_is_left_alone(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 12], ir_version: 7> g (float[6] x, int64 size) => (float[n] y) <int64 at = {1}> {
            list = SplitToSequence (x, size)
            y = SequenceAt (list, at)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert result.notes == ("nothing to fold, merge or drop",)


def test_what_draws_numbers_is_not_folded(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17], ir_version: 8> g (float[4] x) => (float[4] y) <float[4] p = {0.5, 0.5, 0.5, 0.5}> {
            one = Bernoulli (p)
            two = Bernoulli (p)
            unused = Neg (x)
            three = Add (one, two)
            y = Add (x, three)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert operators(result.model).count("Bernoulli") == 2


def test_an_output_that_is_constant_keeps_its_name(tmp_path: Path) -> None:
    model = parsed(
        tmp_path,
        """<opset_import: ["": 17]> g (float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
            y = Relu (x)
            z = Mul (w, w)
        }""",
    )
    result = apply(Clean, model, tmp_path)
    assert result.counts["nodes removed"] == 1
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert relative_l2(model, result.model, {"x": np.array([-1.0, 2.0], np.float32)}) == 0


def test_denormal_weights_become_zeros_unless_something_divides_by_them(tmp_path: Path) -> None:
    weight = random_weight(8, 4)
    weight[3:6] = [[1e-39], [-1e-44], [1.17e-38]]
    bias = np.array([1e-40, 1, -2, 1.2e-38], np.float32)
    tiny = np.full(4, 1e-39, np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "weight"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["sum"]),
        helper.make_node("Add", ["x", "guard"], ["guarded"]),
        helper.make_node("ReduceSum", ["guarded"], ["total"]),
        helper.make_node("Div", ["sum", "total"], ["share"]),
        helper.make_node("Div", ["share", "tiny"], ["y"]),
    ]
    guard = np.full(8, 1e-39, np.float32)
    weights = {"weight": weight, "bias": bias, "tiny": tiny, "guard": guard}
    result = apply(Clean, build(tmp_path, nodes, weights, {"x": [2, 8]}, {"y": [2, 4]}), tmp_path)
    assert result.counts["denormal weights set to zero"] == 13
    left = {one.name: onnx.numpy_helper.to_array(one) for one in proto(result.model).graph.initializer}
    assert not left["weight"][3:6].any() and (left["weight"][:3] == weight[:3]).all()
    assert left["bias"].tolist() == [0, 1, -2, bias[3]]
    assert left["tiny"].tolist() == tiny.tolist() and left["guard"].tolist() == guard.tolist()
