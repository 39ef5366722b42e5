"""``optim reduce``: what still fails, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from optim._engine.cli.main import main
from optim._engine.graphs.ingest import ingest
from optim.errors import ExitStatus
from optim_plugins.diagnose.reduce import command as verb
from optim_plugins.diagnose.reduce.cut import reduce_model


def chain(path: Path, length: int = 24, special: int = 13) -> Path:
    """Sums, each with a weight of its own, and one Sqrt among them."""
    node = helper.make_node
    nodes = [node("Add", [f"v{i}", f"w{i}"], [f"v{i + 1}"], f"n{i}") for i in range(length)]
    nodes[special] = node("Sqrt", [f"v{special}"], [f"v{special + 1}"], "special")
    weights = [numpy_helper.from_array(np.full((1, 300), i, np.float32), f"w{i}") for i in range(length)]
    ends = [helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, ["n", 300]) for i in (0, length)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_one_node_is_left_with_what_it_reads_as_inputs(tmp_path):
    model = ingest(chain(tmp_path / "m.onnx"), tmp_path / "store")
    found, tried = reduce_model(model.ir, lambda part: any(node.op_type == "Sqrt" for node in part.graph), 300)
    assert [node.name for node in found.graph] == ["special"]
    assert [value.name for value in found.graph.inputs] == ["v13"]
    assert not found.graph.initializers
    assert tried < 30


def test_two_nodes_far_apart_both_stay(tmp_path):
    model = ingest(chain(tmp_path / "m.onnx"), tmp_path / "store")

    def shows(part) -> bool:
        return {"n2", "n20"} <= {node.name for node in part.graph}

    found, _ = reduce_model(model.ir, shows, 300)
    assert {node.name for node in found.graph} == {"n2", "n20"}
    assert set(found.graph.initializers) == {"w2", "w20"}


def test_attempts_are_bounded(tmp_path):
    model = ingest(chain(tmp_path / "m.onnx"), tmp_path / "store")
    found, tried = reduce_model(model.ir, lambda part: False, 3)
    assert tried == 3
    assert len(found.graph) == 24


CHECK = """
import sys, onnx
sys.exit(7 if any(node.op_type == "Sqrt" for node in onnx.load(sys.argv[1]).graph.node) else 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["", " {}"])
def test_the_verb_writes_a_model_that_runs_and_still_fails(tmp_path, capsys, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    chain(tmp_path / "m.onnx", length=4, special=2)
    (tmp_path / "check.py").write_text(CHECK)
    command = f"{Path(sys.executable).as_posix()} check.py{place}"
    assert main(["reduce", "m.onnx", "--while", command, "--json"]) == ExitStatus.DELIVERED
    found = json.loads(capsys.readouterr().out)
    assert (found["nodes"], found["of"], found["status"]) == (1, 4, 7)
    session = ort.InferenceSession(str(tmp_path / "m-reduced.onnx"), providers=["CPUExecutionProvider"])
    assert session.run(None, {"v2": np.full((2, 300), 9, np.float32)})[0].max() == 3


def test_what_does_not_fail_and_what_cannot_be_run_are_refused(tmp_path, capsys):
    path = str(chain(tmp_path / "m.onnx", length=2, special=1))
    quiet = f"{Path(sys.executable).as_posix()} -c pass"
    assert main(["reduce", path, "--while", quiet]) == ExitStatus.USAGE
    assert "nothing-fails" in capsys.readouterr().err
    assert main(["reduce", path, "--while", "no-program-of-this-name {}"]) == ExitStatus.USAGE
    assert "no-such-command" in capsys.readouterr().err


@pytest.mark.slow
def test_weights_of_a_branch_are_inside_what_is_written(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    node, info = helper.make_node, helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.full((1, 300), 2, np.float32), "inside")
    out = info("inner", TensorProto.FLOAT, None)
    bodies = [
        helper.make_graph([node(kind, ["x", "inside"], ["inner"])], kind, [], [out], [weight])
        for kind in ("Add", "Mul")
    ]
    nodes = [
        node("Sqrt", ["x"], ["unused"], "root"),
        node("If", ["c"], ["y"], "branch", then_branch=bodies[0], else_branch=bodies[1]),
    ]
    ends = [info("x", TensorProto.FLOAT, ["n", 300]), info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", ends, [info(n, TensorProto.FLOAT, None) for n in ("y", "unused")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, "m.onnx")
    Path("check.py").write_text(CHECK.replace("Sqrt", "If"))
    command = f"{Path(sys.executable).as_posix()} check.py"
    assert main(["reduce", "m.onnx", "--while", command]) == ExitStatus.DELIVERED
    session = ort.InferenceSession("m-reduced.onnx", providers=["CPUExecutionProvider"])
    got = session.run(None, {"x": np.ones((1, 300), np.float32), "c": np.array(False)})
    assert got[0].max() == 2


def test_the_branch_that_shows_it_takes_the_place_of_its_if(tmp_path):
    """Two of the same inner names, one inside the other."""
    node, info = helper.make_node, helper.make_tensor_value_info
    weight = numpy_helper.from_array(np.full((1, 300), 2, np.float32), "inside")
    out = info("inner", TensorProto.FLOAT, None)
    deep = [
        helper.make_graph([node(kind, ["x"], ["deep"], kind)], kind, [], [info("deep", TensorProto.FLOAT, None)])
        for kind in ("Exp", "Sqrt")
    ]
    bodies = [
        helper.make_graph([node("Add", ["x", "inside"], ["inner"], "sum")], "then", [], [out], [weight]),
        helper.make_graph(
            [
                node("If", ["c"], ["chosen"], "nested", then_branch=deep[0], else_branch=deep[1]),
                node("Neg", ["chosen"], ["inner"], "sum"),
            ],
            "else",
            [],
            [out],
        ),
    ]
    nodes = [
        node("Abs", ["x"], ["inner_2"], "sum_2"),
        node("If", ["c"], ["y"], "branch", then_branch=bodies[0], else_branch=bodies[1]),
        node("Add", ["y", "inner_2"], ["z"], "sum"),
    ]
    ends = [info("x", TensorProto.FLOAT, ["n", 300]), info("c", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", ends, [info("z", TensorProto.FLOAT, None)])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    model = ingest(path, tmp_path / "store")

    def reduced(operator: str, attempts: int = 300) -> tuple[list[str], list[str], int]:
        def shows(part) -> bool:
            return any(node.op_type == operator for node in part.graph.all_nodes())

        found, tried = reduce_model(model.ir, shows, attempts)
        return [node.op_type for node in found.graph], [value.name for value in found.graph.inputs], tried

    assert reduced("Exp")[:2] == (["Exp"], ["x"])
    assert reduced("Sqrt")[:2] == (["Sqrt"], ["x"])
    assert reduced("Neg")[:2] == (["Neg"], ["chosen"])
    assert reduced("Exp", 4) == (["If"], ["x", "c"], 4)


def cannot_open(words: list[str], path: Path, timeout_s: float) -> int:
    """In place of a program that opens the file: a start of one takes a second."""
    try:
        ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception:
        return 5
    return 0


@pytest.mark.parametrize("odd", ["Thing", "NoSuchOperator", "Reshape", "dangling"])
def test_a_model_that_no_runtime_opens_is_cut_to_the_node_that_is_wrong(tmp_path, capsys, monkeypatch, odd):
    """Of another domain, of no domain, of wrong types, and reading what nothing makes."""
    monkeypatch.chdir(tmp_path)
    node, info = helper.make_node, helper.make_tensor_value_info
    nodes = [node("Relu", ["x"], ["a"], "relu"), node("Neg", ["b"], ["y"], "neg")]
    if odd == "dangling":
        wrong = node("Add", ["a", "missing"], ["b"], "odd")
    else:
        wrong = node(odd, ["a", "x"], ["b"], "odd", domain="acme" if odd == "Thing" else "")
    nodes.insert(1, wrong)
    ends = [info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "m.onnx")
    monkeypatch.setattr(verb, "_status", cannot_open)
    assert main(["reduce", "m.onnx", "--while", "check", "--json"]) == ExitStatus.DELIVERED
    out = capsys.readouterr()
    assert json.loads(out.out)["status"] == 5
    assert "Traceback" not in out.err
    left = onnx.load("m-reduced.onnx").graph.node
    assert "odd" in {one.name for one in left}
    assert len(left) < 3
