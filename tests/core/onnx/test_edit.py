"""What rewriting passes share: constants, single readers, names that are free."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from optim.onnx.edit import UniqueNames, add_constant, make_constant, only_reader, read_constant


def model() -> ir.Model:
    """A constant from a node, one from a weight, one that a run may replace; ``y`` and ``z`` are outputs."""
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (float[2] x, float[2] given) => (float[2] y, float[2] z)
        <float[2] given = {5.0, 6.0}, float[2] weight = {1.0, 2.0}>
        {
            number = Constant <value = float {3.0}> ()
            once = Add (x, weight)
            twice = Mul (once, number)
            y = Add (twice, given)
            z = Relu (twice)
        }
    """
    return ir.serde.deserialize_model(onnx.parser.parse_model(text))


def value(graph: ir.Model, name: str) -> ir.Value:
    """A value of the graph by its name."""
    found = (one for node in graph.graph for one in (*node.inputs, *node.outputs) if one is not None)
    return next(one for one in found if one.name == name)


def test_a_constant_is_read_from_a_weight_and_from_a_node() -> None:
    graph = model()
    assert read_constant(value(graph, "weight")).tolist() == [1.0, 2.0]
    assert read_constant(value(graph, "number")) == 3.0


def test_what_a_run_computes_or_leaves_out_is_no_constant() -> None:
    graph = model()
    assert read_constant(value(graph, "x")) is None
    assert read_constant(value(graph, "once")) is None
    assert read_constant(None) is None


def test_a_weight_that_a_run_may_replace_is_read_only_where_that_is_asked_for() -> None:
    graph = model()
    assert read_constant(value(graph, "given")) is None
    assert read_constant(value(graph, "given"), even_if_input=True).tolist() == [5.0, 6.0]


def test_a_larger_constant_than_asked_for_is_not_read() -> None:
    graph = model()
    assert read_constant(value(graph, "weight"), at_most=1) is None
    assert read_constant(value(graph, "weight"), at_most=2) is not None


def test_a_new_constant_has_its_array_with_shape_and_type() -> None:
    graph = model()
    new = add_constant(graph.graph, "new", np.array([[1, 2, 3]], np.int64))
    assert graph.graph.initializers["new"] is new
    assert new.shape == ir.Shape([1, 3])
    assert new.dtype == ir.DataType.INT64
    assert read_constant(new).tolist() == [[1, 2, 3]]
    stored = ir.serde.serialize_model(graph).graph.initializer
    assert [tensor.name for tensor in stored if tensor.name == "new"] == ["new"]


def test_a_constant_of_a_tensor_that_is_made_later_reads_nothing_now() -> None:
    made = []

    def make() -> ir.TensorProtocol:
        made.append(1)
        return ir.tensor(np.float32([1, 2]), name="later")

    lazy = ir.LazyTensor(make, dtype=ir.DataType.FLOAT, shape=ir.Shape([2]))
    new = make_constant("later", lazy)
    assert (new.name, new.shape, new.dtype, made) == ("later", ir.Shape([2]), ir.DataType.FLOAT, [])
    assert new.graph is None


def test_the_only_reader_is_found_and_may_have_to_be_of_an_operator() -> None:
    graph = model()
    once = value(graph, "once")
    reader = only_reader(once)
    assert reader is not None
    assert reader.op_type == "Mul"
    assert only_reader(once, "Mul", "Div") is reader
    assert only_reader(once, "Div") is None


def test_two_readers_and_a_graph_output_have_no_only_reader() -> None:
    graph = model()
    assert only_reader(value(graph, "twice")) is None
    graph.graph.outputs.append(value(graph, "once"))
    assert only_reader(value(graph, "once")) is None


def test_a_reader_in_a_subgraph_is_not_the_only_reader() -> None:
    text = """
        <ir_version: 8, opset_import: ["" : 17]>
        agraph (bool choice, float[2] x) => (float[2] y)
        {
            once = Abs (x)
            y = If (choice) <
                then_branch = yes () => (float[2] a) { a = Relu (once) },
                else_branch = no () => (float[2] b) { b = Constant <value = float[2] {1.0, 2.0}> () }
            >
        }
    """
    graph = ir.serde.deserialize_model(onnx.parser.parse_model(text))
    once = graph.graph[0].outputs[0]
    assert len(list(once.uses())) == 1
    assert only_reader(once) is None


def test_a_name_that_any_value_has_is_not_given_out_again() -> None:
    names = UniqueNames(model())
    assert [names.take(name) for name in ("free", "free", "weight", "x", "once", "free")] == [
        "free",
        "free_2",
        "weight_2",
        "x_2",
        "once_2",
        "free_3",
    ]
