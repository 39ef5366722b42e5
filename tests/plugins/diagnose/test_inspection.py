from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from feed_models import FLOAT, INT64, build, constant, helper, value
from onnx import TensorProto

from optim.errors import OptimError
from optim.onnx.operators import operator_counts
from optim_plugins.diagnose.inspect.command import inspect as inspect_command
from optim_plugins.diagnose.inspect.model_file import Weights, inspect


@pytest.fixture
def path(tmp_path):
    then = helper.make_graph([helper.make_node("Neg", ["h"], ["t"])], "then", [], [value("t", FLOAT, None)])
    other = helper.make_graph([helper.make_node("Relu", ["h"], ["e"])], "else", [], [value("e", FLOAT, None)])
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)]
    )
    nodes = [
        helper.make_node("Constant", [], ["scale"], value=constant("", np.ones(600, np.int8))),
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["h"]),
        helper.make_node("If", ["go"], ["i"], then_branch=then, else_branch=other),
        helper.make_node("Twice", ["i"], ["d"], domain="local"),
        helper.make_node("FusedThing", ["d", "scale"], ["y"], domain="com.microsoft"),
    ]
    inputs = [value("x", FLOAT, ["batch", None, 32]), value("go", TensorProto.BOOL, []), value("w", FLOAT, [32, 32])]
    model = build(
        nodes,
        inputs,
        [value("y", FLOAT, None)],
        [constant("w", np.ones((32, 32), np.float32))],
        domains=("local", "com.microsoft"),
        functions=[function],
    )
    model.producer_name = "test"
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_everything_is_counted_in_subgraphs_and_functions_too(path):
    found = inspect(path)
    expected = {
        "MatMul": 2,
        "Add": 1,
        "Constant": 1,
        "If": 1,
        "Neg": 1,
        "Relu": 1,
        "com.microsoft:FusedThing": 1,
        "local:Twice": 1,
    }
    assert found.operators == operator_counts(path) == expected
    assert next(iter(found.operators)) == "MatMul"
    assert (found.nodes, found.subgraphs, found.functions) == (9, 2, ("local:Twice",))


def test_the_interface_leaves_out_initializers_and_says_what_is_dynamic(path):
    found = inspect(path)
    assert [(info.name, info.dtype, info.shape) for info in found.inputs] == [
        ("x", "float32", ("batch", None, 32)),
        ("go", "bool", ()),
    ]
    assert found.dynamic == {"batch": ("x[0]",), "?": ("x[1]",)}
    assert found.outputs[0].shape is None
    assert found.opset == {"ai.onnx": 17, "local": 1, "com.microsoft": 1}
    assert (found.ir_version, found.producer) == (9, "test")


def test_weights_are_counted_by_dtype_largest_first(path):
    assert inspect(path).weights == (Weights("float32", 1, 4096), Weights("int8", 1, 600))


def shared_model(tmp_path, **options):
    tensors = [constant(name, np.ones((32, 32), np.float32)) for name in "ab"]
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Gather", ["s", "x"], ["y"])]
    model = build(nodes, [value("x", INT64, [1])], [value("y", FLOAT, None)], tensors)
    path = tmp_path / "shared.onnx"
    onnx.save(model, path, save_as_external_data=True, location="shared.data", size_threshold=0, **options)
    graph = onnx.load(path, load_external_data=False)
    for entry in graph.graph.initializer[1].external_data:
        if entry.key == "offset":
            entry.value = "0"
    onnx.save(graph, path)
    return path


def test_shared_external_data_counts_once_in_the_size(tmp_path):
    path = shared_model(tmp_path)
    found = inspect(path)
    assert found.size_bytes == path.stat().st_size + 4096
    assert found.shared_weights == (("b", "a"),)
    assert (found.data_files, found.missing_files) == (("shared.data",), ())


def test_a_graph_whose_data_is_missing_can_still_be_inspected(tmp_path):
    path = shared_model(tmp_path)
    (tmp_path / "shared.data").unlink()
    assert inspect(path).missing_files == ("shared.data",)


def test_what_is_no_model_is_refused(tmp_path):
    (tmp_path / "x.onnx").write_text("nothing")
    with pytest.raises(OptimError) as caught:
        inspect(tmp_path / "x.onnx")
    assert caught.value.reference == "not-onnx"
    with pytest.raises(OptimError):
        inspect(tmp_path / "missing.onnx")


def test_the_command_prints_tables(path):
    result = CliRunner().invoke(inspect_command, [str(path)], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    for text in ("MatMul", "float32", "[batch, ?, 32]", "ai.onnx 17", "2 subgraphs and 1 function", "4.1 kB"):
        assert text in result.output


def test_the_command_prints_one_json_object(path):
    found = json.loads(CliRunner().invoke(inspect_command, [str(path), "--json"]).stdout)
    assert found["operators"]["MatMul"] == 2
    assert found["inputs"][0] == {"name": "x", "dtype": "float32", "shape": ["batch", None, 32]}
    assert found["weights"][0] == {"dtype": "float32", "count": 1, "size_bytes": 4096}
    assert found["dynamic"]["batch"] == ["x[0]"]
    assert found["path"] == str(path)
