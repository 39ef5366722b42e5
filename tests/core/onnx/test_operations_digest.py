"""Graphs that do the same have one digest, whatever things are called."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from optim.onnx.digests import operations_digest


def digest(text: str, **weights: np.ndarray) -> str:
    """Of a graph in the parser's text; ``weights`` lie inside it."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> agraph {text}')
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return operations_digest(model.SerializeToString())


_GRAPH = "(float[2] x) => (float[2] y) {a = Relu(x) b = Tanh(x) y = Sub(a, b)}"


def test_names_and_order_of_nodes_do_not_count() -> None:
    assert digest(_GRAPH) == digest("(float[2] x) => (float[2] y) {t = Tanh(x) r = Relu(x) y = Sub(r, t)}")


@pytest.mark.parametrize(
    "other",
    [
        "(float[2] x) => (float[2] y) {a = Relu(x) b = Tanh(x) y = Sub(b, a)}",
        "(float[2] x) => (float[2] y) {a = Relu(x) b = Tanh(x) y = Add(a, b)}",
        "(float[2] x) => (float[2] z) {a = Relu(x) b = Tanh(x) z = Sub(a, b)}",
        "(float[3] x) => (float[3] y) {a = Relu(x) b = Tanh(x) y = Sub(a, b)}",
        "(float[2] x) => (float[2] y) {a = Relu(x) b = Tanh(x) c = Tanh(a) y = Sub(a, b)}",
        "(float[2] x) => (float[2] y) {a = Relu(x) b = Tanh(a) y = Sub(a, b)}",
    ],
)
def test_what_a_graph_does_counts(other: str) -> None:
    assert digest(_GRAPH) != digest(other)


def test_attributes_count() -> None:
    softmax = "(float[2, 2] x) => (float[2, 2] y) {{y = Softmax <axis = {}> (x)}}"
    assert digest(softmax.format(0)) != digest(softmax.format(1))


def test_a_constant_counts_by_its_numbers_and_not_by_its_name() -> None:
    text = "(float[2] x) => (float[2] y) {y = Add(x, NAME)}"
    one, two = np.float32([1, 1]), np.float32([2, 2])
    assert digest(text.replace("NAME", "a"), a=one) == digest(text.replace("NAME", "b"), b=one)
    assert digest(text.replace("NAME", "a"), a=one) != digest(text.replace("NAME", "a"), a=two)


def test_a_weight_in_a_file_counts_by_type_and_shape() -> None:
    def graph(name: str, location: str, *shape: int) -> str:
        weight = onnx.TensorProto(name=name, data_type=1, dims=shape, data_location=onnx.TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=location)
        ends = [helper.make_tensor_value_info(end, 1, None) for end in "xy"]
        graph = helper.make_graph([helper.make_node("Add", ["x", name], ["y"])], "g", ends[:1], ends[1:], [weight])
        return operations_digest(helper.make_model(graph).SerializeToString())

    assert graph("a", "one.bin", 3) == graph("b", "two.bin", 3)
    assert graph("a", "one.bin", 3) != graph("a", "one.bin", 4)


def test_branches_count_and_read_what_is_around_them() -> None:
    def text(inside: str) -> str:
        return (
            "(bool c, float[2] x) => (float[2] y) {a = Relu(x) b = Tanh(x) "
            f"y = If(c) <then_branch = t () => (float[2] r) {{r = Neg({inside})}}, "
            "else_branch = e () => (float[2] s) {s = Abs(a)}>}"
        )

    assert digest(text("a")) == digest(text("a").replace("r)", "q)").replace("{r =", "{q ="))
    assert digest(text("a")) != digest(text("b"))
