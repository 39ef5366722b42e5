"""``optim swap``: chosen operators on chosen kernels, and whose kernel moves the outputs."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim import ExitStatus, OptimError
from optim._engine.cli.main import main
from optim.cli_kit import require_target
from optim_plugins.torch.swap.attribution import attribute, difference, parse_kernels
from optim_plugins.torch.swap.node_evaluator import NodeEvaluator
from optim_plugins.torch.swap.ort_kernels import BFLOAT16, OrtKernels

CPU = require_target("cpu")
EXAMPLE = Path(__file__).parents[3] / "benchmarks" / "layer_norm" / "swap_kernels.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("swap_kernels", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def rows(example):
    return example.measure(width=64, length=32)


def test_the_study_finds_one_ulp_in_half_precision(rows):
    half = {row.combination: row for row in rows if row.dtype == "float16" and row.target == "cpu"}
    single = {row.combination: row for row in rows if row.dtype == "float32" and row.target == "cpu"}
    assert set(half) == set(single) == {"ort", "torch", "LayerNormalization=ort", "MatMul=ort"}
    for row in (*half.values(), *single.values()):
        assert row.to[row.combination].max_abs == 0 if row.combination in row.to else True
        assert 0 < row.to["float64"].max_abs < 0.1
        assert row.device == "cpu"
    assert single["torch"].to["ort"].ulp < 20
    assert half["torch"].to["float64"].max_abs > 100 * single["torch"].to["float64"].max_abs


def test_a_swapped_kernel_is_the_one_that_runs(example):
    model = example.layer_norm_model(16)
    x = (np.random.default_rng(0).random((1, 4, 16), np.float32) - np.float32(0.5)) * 120
    evaluator = NodeEvaluator(model, require_target("cpu"))
    ran: list[str] = []
    own = evaluator._ort.run
    evaluator._ort.run = lambda place, node, outer: (ran.append(node.op_type), own(place, node, outer))[1]
    swapped = evaluator.run({"X": x}, {"MatMul": "ort"}, "torch")
    assert (ran, swapped.on_ort) == (["MatMul"], set())
    whole = evaluator.run({"X": x}, {}, "float64").outputs
    assert whole["Z"].dtype == np.float64
    assert np.allclose(swapped.outputs["Z"], whole["Z"], rtol=1e-5)


def test_bfloat16_runs_on_torch_and_on_what_kernels_onnxruntime_has(example, tmp_path, capsys):
    x = (np.random.default_rng(0).random((1, 4, 16), np.float32) - np.float32(0.5)) * 120
    combinations = [parse_kernels("MatMul=ort"), parse_kernels("LayerNormalization=ort")]
    made = attribute(example.layer_norm_model(16), {"X": x}, combinations, require_target("cpu"), "bfloat16", tmp_path)
    rows = {row.combination: row for row in made}
    assert [rows[name].dtype for name in ("ort", "torch", "MatMul=ort", "float64")] == [*["bfloat16"] * 3, "float64"]
    assert "MatMul" in rows["ort"].rounded and not rows["ort"].whole
    assert rows["MatMul=ort"].rounded == ("MatMul",)
    assert rows["torch"].rounded == ()
    for name in ("ort", "torch"):
        assert 0.2 < rows[name].to["float64"].ulp < 3  # 8 bits of mantissa, summed up in more
    path = tmp_path / "ln.onnx"
    onnx.save(example.layer_norm_model(16), path)
    assert main(["swap", str(path), "--kernels", "MatMul=ort", "--dtype", "bfloat16"]) == ExitStatus.DELIVERED
    said = capsys.readouterr().out
    assert "no kernel in bfloat16 on cpu of these" in said
    assert "row ort is of its kernels one by one" in said


def test_every_figure_of_a_difference_is_what_it_says():
    a = np.array([1.0, 2.0, np.nan, 4.0], np.float32)
    b = np.array([1.0, 2.5, 3.0, 304.0], np.float32)
    found = difference(a, b, a.dtype)
    assert (found.n, found.nan, found.max_abs, found.total) == (4, 1, 300.0, 300.5)
    assert found.relative == 75.0
    assert found.above == (2, 2, 2, 2, 2, 1, 1, 1)
    assert found.ulp == 300.0 / np.spacing(np.float32(304.0))


def test_another_evaluator_finds_the_same_numbers(example):
    """onnx-diagnostic's, node by node on the same two runtimes, and its figures of a difference."""
    peers = pytest.importorskip("onnx_diagnostic.reference")
    import torch
    from onnx_diagnostic.helpers import max_diff

    x = (np.random.default_rng(0).random((2, 32, 64), np.float32) - np.float32(0.5)) * 120
    model = example.layer_norm_model(64)
    evaluator = NodeEvaluator(model, require_target("cpu"))
    ours = {kernel: evaluator.run({"X": x}, {}, kernel).outputs["Z"] for kernel in ("ort", "torch")}
    assert np.array_equal(ours["ort"], peers.OnnxruntimeEvaluator(model, whole=False).run(None, {"X": x})[0])
    by_torch = peers.TorchOnnxEvaluator(model).run(None, {"X": torch.from_numpy(x)})[0].numpy()
    assert np.array_equal(ours["torch"], by_torch)
    theirs = max_diff(ours["torch"], ours["ort"], hist=[0.0, 1e-6, 1e-5])
    found = difference(ours["torch"], ours["ort"], x.dtype)
    assert (found.n, found.max_abs, found.nan) == (theirs["n"], theirs["abs"], theirs["dnan"])
    assert np.isclose(found.total, theirs["sum"]) and np.isclose(found.relative, theirs["rel"], rtol=1e-3)
    assert found.above[0] == theirs["rep"][">0.0"] > 0


def branching() -> onnx.ModelProto:
    """A node with bodies that read what is around them, an operator without a kernel of torch, and a Conv."""
    info, node = helper.make_tensor_value_info, helper.make_node
    out = info("inner", TensorProto.FLOAT, None)
    inside = numpy_helper.from_array(np.ones((40, 1, 1, 8), np.float32), "inside")  # large enough to lie beside
    bodies = [
        helper.make_graph([node(kind, ["c", "inside"], ["inner"])], kind, [], [out], [inside])
        for kind in ("Add", "Mul")
    ]
    nodes = [
        node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 0, 1, 0], strides=[2, 1]),
        node("ReduceMax", ["x"], ["most"], "most", keepdims=0),
        node("Greater", ["most", "zero"], ["choice"], "greater"),
        node("If", ["choice"], ["y"], "branch", then_branch=bodies[0], else_branch=bodies[1]),
    ]
    weights = [
        numpy_helper.from_array(np.random.default_rng(0).standard_normal((4, 3, 3, 1)).astype(np.float32), "w"),
        numpy_helper.from_array(np.float32(0), "zero"),
    ]
    ends = [info("x", TensorProto.FLOAT, [1, 3, 8, 8]), info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_what_torch_has_no_kernel_of_runs_on_onnxruntime_and_is_told(tmp_path):
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    rows = attribute(branching(), {"x": x}, [parse_kernels("Conv=ort")], require_target("cpu"), "", tmp_path)
    pure = next(row for row in rows if row.combination == "torch")
    assert set(pure.on_ort) == {"ReduceMax", "Greater"}
    assert pure.to["float64"].max_abs < 1e-5


def test_nodes_of_the_branch_that_is_taken_run_on_the_kernels_that_were_chosen(tmp_path):
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    evaluator = NodeEvaluator(branching(), require_target("cpu"))
    on_ort: list[str] = []
    own = evaluator._ort.run
    evaluator._ort.run = lambda place, node, outer: (on_ort.append(node.op_type), own(place, node, outer))[1]
    one = evaluator.run({"x": x}, {"Add": "ort"}, "torch").outputs["y"]
    assert on_ort.count("Add") == 1
    assert "Mul" not in on_ort
    two = evaluator.run({"x": x - 9}, {"Mul": "ort"}, "torch").outputs["y"]
    assert on_ort.count("Mul") == 1
    conv = evaluator.run({"x": x}, {}, "float64").outputs["y"] - 1
    assert np.allclose(one, conv + 1, atol=1e-5)
    assert not np.allclose(one, two)


def test_the_verb_prints_the_table_and_refuses_what_it_does_not_know(tmp_path, capsys, example):
    path = tmp_path / "model.onnx"
    onnx.save(example.layer_norm_model(16), path)
    asked = ["swap", str(path), "--kernels", "LayerNormalization=torch,MatMul=ort"]
    assert main([*asked, "--dtype", "float16", "--json"]) == ExitStatus.DELIVERED
    rows = json.loads(capsys.readouterr().out)
    assert {row["combination"] for row in rows} == {"ort", "torch", "float64", "LayerNormalization=torch,MatMul=ort"}
    assert main(asked) == ExitStatus.DELIVERED
    text = capsys.readouterr().out
    assert {"abs", "rel", "sum", "ULP", "NaN", ">0", ">100"} <= set(text.splitlines()[0].split())
    assert "torch on" in text
    assert main(["swap", str(path), "--kernels", "Conv=torch"]) == ExitStatus.USAGE
    assert "unknown-operator-name" in capsys.readouterr().err
    assert main(["swap", str(path), "--kernels", "MatMul=tensorflow"]) == ExitStatus.USAGE


def test_plots_and_the_table_have_every_combination(example, rows):
    drawn = example.bars("title", {"a": 0.25, "b": 0.0})
    assert drawn.startswith("<svg")
    assert drawn.count("<rect") == 3
    assert example.table(rows).count("\n| cpu | float16 |") == 2 + 2 + 3 + 3


def test_numbers_that_are_drawn_anew_are_said_to_move_the_rows(tmp_path, capsys):
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [node("RandomNormalLike", ["x"], ["noise"], "noise"), node("Add", ["x", "noise"], ["y"], "sum")]
    ends = [info(name, TensorProto.FLOAT, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert main(["swap", str(path)]) == ExitStatus.DELIVERED
    assert "rows differ by chance too" in capsys.readouterr().out


def test_bfloat16_behind_integers_and_outputs_that_are_left_out_are_run(tmp_path):
    node, info = helper.make_node, helper.make_tensor_value_info
    draw = np.random.default_rng(0)
    sizes = {"table": (9, 4), "w": (1, 9, 4), "r": (1, 9, 3)}
    weights = [numpy_helper.from_array(draw.random(size, np.float32), name) for name, size in sizes.items()]
    nodes = [
        node("Gather", ["table", "ids"], ["x"], "look_up"),
        node("GRU", ["x", "w", "r"], ["", "y"], "gru", hidden_size=3),
    ]
    ends = [info("ids", TensorProto.INT64, [5, 2]), info("y", TensorProto.FLOAT, [1, 2, 3])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rows = attribute(model, {"ids": np.ones((5, 2), np.int64)}, [], require_target("cpu"), "bfloat16", tmp_path)
    made = {row.combination: row for row in rows}
    assert made["ort"].dtype == "bfloat16" and "GRU" in made["ort"].rounded
    assert 0 < made["ort"].to["float64"].max_abs < 0.02


def test_inputs_may_end_as_those_behind_casts_are_called(tmp_path):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in ("x_float32", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x_float32"], ["y"])], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {"x_float32": np.ones((2, 3), np.float32)}
    for dtype in ("", "bfloat16"):
        rows = attribute(model, feeds, [], require_target("cpu"), dtype, tmp_path)
        assert all(one.max_abs == 0 for row in rows for one in row.to.values())


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.FLOAT8E5M2])
def test_weights_of_types_that_numpy_does_not_hand_over_are_run(kind, tmp_path):
    draw, node, info = np.random.default_rng(0), helper.make_node, helper.make_tensor_value_info
    numbers = draw.integers(-8, 8, (8, 4))
    weights = [helper.make_tensor("w", kind, [8, 4], numbers.ravel()), numpy_helper.from_array(np.float32(0.1), "s")]
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"], "dq"), node("MatMul", ["x", "d"], ["y"], "product")]
    ends = [info("x", TensorProto.FLOAT, [2, 8]), info("y", TensorProto.FLOAT, [2, 4])]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = draw.random((2, 8), np.float32)
    rows = attribute(model, {"x": x}, [], require_target("cpu"), "", tmp_path)
    torch = next(row for row in rows if row.combination == "torch")
    assert torch.on_ort == ("DequantizeLinear",)
    assert torch.to["float64"].max_abs < 1e-5
    made = NodeEvaluator(model, require_target("cpu")).run({"x": x}, {}, "float64").outputs["y"]
    assert np.allclose(made, x @ (0.1 * numbers), atol=1e-5)


def kernels(opset: int = 21) -> OrtKernels:
    graph = helper.make_graph([], "g", [], [])
    return OrtKernels(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), CPU)


@pytest.mark.parametrize(
    ("operator", "to"), [("Cast", TensorProto.FLOAT), ("Relu", 0), ("Cast", TensorProto.FLOAT8E4M3FN)]
)
def test_only_results_in_bfloat16_are_rounded_to_it(operator: str, to: int) -> None:
    x = np.array([1.01, 2.02], np.float32)
    node = helper.make_node(operator, ["x"], ["y"], **({"to": to} if to else {}))
    (narrow,) = kernels().run(("a",), node, {"x": x.astype(BFLOAT16)})
    assert narrow.dtype == (helper.tensor_dtype_to_np_dtype(to) if to else BFLOAT16)
    assert np.allclose(narrow.astype(np.float32), x, rtol=0.1)


def test_a_mean_of_bfloat16_in_float32_keeps_its_bits() -> None:
    """A node that runs in float32, for want of a kernel, rounds what it makes of bfloat16 and nothing else."""
    body = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["w"], to=TensorProto.FLOAT), helper.make_node("ReduceMean", ["w"], ["y"])],
        "b",
        [],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    x = np.array([1.0, 1.03125, 1.03125], np.float32).astype(BFLOAT16)
    (found,) = kernels().run(("a",), node, {"c": np.array(True), "x": x})
    assert found.dtype == np.float32 and found.ravel()[0] == x.astype(np.float32).mean()


@pytest.mark.parametrize("kind", [TensorProto.INT4, TensorProto.UINT4, TensorProto.FLOAT8E4M3FN])
def test_values_of_4_and_8_bits_go_in_and_come_out_as_they_are_each_time(kind: int) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["y"])
    back = helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"])
    here, scale, zero = kernels(), np.array(0.5, np.float32), np.zeros((), dtype)
    for given in ([1, 2], [5, 6]):
        given_array = np.array(given).astype(dtype)
        (y,) = here.run(("a",), node, {"q": given_array, "s": scale})
        assert y.tolist() == [0.5 * number for number in given]
        (q,) = here.run(("b",), back, {"y": y, "s": scale, "z": zero})
        assert q.dtype == dtype and q.tobytes() == given_array.tobytes()


def test_an_operator_that_the_reference_lacks_is_named(tmp_path):
    node = helper.make_node("FastGelu", ["x"], ["y"], "gelu", domain="com.microsoft")
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 8])] for name in "xy"]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(helper.make_graph([node], "g", *ends), opset_imports=opsets, ir_version=10)
    with pytest.raises(OptimError) as caught:
        attribute(model, {"x": np.ones((2, 8), np.float32)}, [], require_target("cpu"), "", tmp_path)
    assert (caught.value.reference, caught.value.status) == ("swap-failed", ExitStatus.BAD_INPUT)
    assert "'gelu'" in caught.value.cause


def test_a_node_that_onnxruntime_does_not_run_alone_is_named(example):
    model = example.layer_norm_model(16)
    node = next(node for node in model.graph.node if node.op_type == "MatMul")
    with pytest.raises(OptimError) as caught:
        OrtKernels(model, require_target("cpu")).run(("a",), node, {node.input[0]: np.ones((1, 4, 16), np.int8)})
    assert caught.value.reference == "swap-failed"
    assert caught.value.fix.endswith("--kernels MatMul=torch")


def test_without_torch_it_says_what_to_install(monkeypatch, capsys):
    nothing = SimpleNamespace(util=SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr("optim_plugins.torch.available.importlib", nothing)
    assert main(["swap", "model.onnx"]) == ExitStatus.USAGE
    assert "error[torch-missing]: optim swap needs torch\n" in capsys.readouterr().err
