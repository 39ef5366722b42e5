"""When ``ort.share-past`` declines, and that a value which somebody else reads stays what it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper
from ort_models import DATA, feeds_for

from optim_plugins.ort.fuse.past.past_graph import share_past

KEY = "past_key_values.0.key"
Change = Callable[[onnx.ModelProto], None]


def _decoder(name: str) -> onnx.ModelProto:
    return onnx.load(DATA / f"{name}.onnx")


def _given(model: onnx.ModelProto, name: str) -> onnx.ValueInfoProto:
    return next(one for one in model.graph.input if one.name == name)


def _without_shape(model: onnx.ModelProto) -> None:
    _given(model, KEY).type.tensor_type.ClearField("shape")


def _of_three_axes(model: onnx.ModelProto) -> None:
    """The past has an axis less, and the graph adds it."""
    past = _given(model, KEY)
    del past.type.tensor_type.shape.dim[0]
    for node in model.graph.node:
        node.input[:] = ["whole" if name == KEY else name for name in node.input]
    axes = onnx.numpy_helper.from_array(np.array([0]), "first_axis")
    model.graph.initializer.append(axes)
    model.graph.node.insert(0, helper.make_node("Unsqueeze", [KEY, "first_axis"], ["whole"], "add_axis"))


def _along_axis_1(model: onnx.ModelProto) -> None:
    joined = next(node for node in model.graph.node if "present.0.key" in node.output)
    joined.attribute[0].i = 1


def _mask_of_four_axes(model: onnx.ModelProto) -> None:
    shape = _given(model, "attention_mask").type.tensor_type.shape
    shape.dim.extend([shape.dim[0], shape.dim[1]])


def _without(name: str) -> Change:
    def rename(model: onnx.ModelProto) -> None:
        _given(model, name).name = "renamed"
        for node in model.graph.node:
            node.input[:] = ["renamed" if one == name else one for one in node.input]

    return rename


def _in_type(kind: int) -> Change:
    """Everything that was a float32 is of another type."""

    def convert(model: onnx.ModelProto) -> None:
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
            if value.type.tensor_type.elem_type == TensorProto.FLOAT:
                value.type.tensor_type.elem_type = kind
        constants = [a.t for node in model.graph.node for a in node.attribute if a.type == onnx.AttributeProto.TENSOR]
        for tensor in (*model.graph.initializer, *constants):
            if tensor.data_type == TensorProto.FLOAT:
                array = onnx.numpy_helper.to_array(tensor).astype(dtype)
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        for node in model.graph.node:
            for attribute in node.attribute:
                if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                    attribute.i = kind

    return convert


def _read_too(name: str, how: str) -> Change:
    """A value is an output, or is read by a further node, or by the nodes of two branches."""

    def read(model: onnx.ModelProto) -> None:
        output = name
        if how == "a reader":
            output = "further"
            model.graph.node.append(helper.make_node("Identity", [name], [output], "reader"))
        elif how == "a branch":
            output = "further"
            branches = {}
            for branch in ("then_branch", "else_branch"):
                made = helper.make_tensor_value_info(branch, TensorProto.FLOAT, None)
                reader = helper.make_node("Identity", [name], [branch], "reader")
                branches[branch] = helper.make_graph([reader], branch, [], [made])
            taken = onnx.numpy_helper.from_array(np.array(True), "taken")
            model.graph.initializer.append(taken)
            model.graph.node.append(helper.make_node("If", ["taken"], [output], "choice", **branches))
        model.graph.output.append(helper.make_tensor_value_info(output, TensorProto.FLOAT, None))

    return read


def _in_a_branch(model: onnx.ModelProto) -> None:
    """The whole decoder is inside a branch."""
    inner, other = onnx.GraphProto(), onnx.GraphProto()
    inner.CopyFrom(model.graph)
    del inner.input[:], inner.initializer[:]
    inner.name, other.name = "then", "else"
    for value in model.graph.output:
        empty = onnx.numpy_helper.from_array(np.zeros([1] * len(value.type.tensor_type.shape.dim), np.float32))
        other.node.append(helper.make_node("Constant", [], [value.name], value=empty))
        other.output.append(value)
    model.graph.input.append(helper.make_tensor_value_info("taken", TensorProto.BOOL, []))
    outputs = [f"{value.name}_outside" for value in model.graph.output]
    del model.graph.node[:], model.graph.value_info[:]
    model.graph.node.append(helper.make_node("If", ["taken"], outputs, then_branch=inner, else_branch=other))
    for value, name in zip(model.graph.output, outputs, strict=True):
        value.name = name


NO_INPUT = "the graph has no input {} of two axes"
READS = "reader (Identity) reads '{}' beside its attention"
DECLINED: dict[str, tuple[Change, str]] = {
    "rank: a past without a shape": (_without_shape, f"past '{KEY}' [] grows by axis"),
    "rank: a past of three axes": (_of_three_axes, "is not an input joined to new tokens"),
    "rank: a mask of four axes": (_mask_of_four_axes, NO_INPUT.format("attention_mask")),
    "another layout": (_along_axis_1, "grows by axis 1, and is not [batch, heads, tokens, head size]"),
    "no mask": (_without("attention_mask"), NO_INPUT.format("attention_mask")),
    "no ids": (_without("input_ids"), NO_INPUT.format("input_ids")),
    "dtype: float64": (_in_type(TensorProto.DOUBLE), "no attention over the past"),
    "dtype: bfloat16": (_in_type(TensorProto.BFLOAT16), "no attention over the past"),
    "second consumer: of a past": (_read_too(KEY, "a reader"), READS.format(KEY)),
    "second consumer: of a present": (_read_too("present.0.key", "a reader"), READS.format("present.0.key")),
    "subgraph: reads a past": (_read_too(KEY, "a branch"), READS.format(KEY)),
    "subgraph: holds the attention": (_in_a_branch, f"no attention over the past '{KEY}' was recognized"),
}


@pytest.mark.parametrize("name", ["gpt2.dynamo", "llama.dynamo"])
@pytest.mark.parametrize(("change", "said"), list(DECLINED.values()), ids=list(DECLINED))
def test_a_graph_that_it_does_not_know_is_declined_with_the_reason(name: str, change: Change, said: str) -> None:
    model = _decoder(name)
    change(model)
    assert said in str(share_past(ir.serde.deserialize_model(model)))


@pytest.mark.parametrize("name", ["gpt2.dynamo", "gpt2.ts", "llama.dynamo", "llama.ts"])
def test_a_graph_with_an_attribute_that_onnx_does_not_know_is_left_alone(name: str) -> None:
    model = _decoder(name)
    operators = {node.op_type: place for place, node in enumerate(model.graph.node)}
    for operator, place in operators.items():
        graph = ir.serde.deserialize_model(model)
        graph.graph[place].attributes["not_yet_invented"] = ir.AttrInt64("not_yet_invented", 1)
        assert f"{operator} has attribute 'not_yet_invented'" in str(share_past(graph))


@pytest.mark.parametrize("how", ["an output", "a reader", "a branch"])
def test_values_around_the_attention_that_somebody_else_reads_stay_what_they_are(how: str) -> None:
    model = _decoder("gpt2.dynamo")
    joined = next(node for node in model.graph.node if "present.0.value" in node.output)
    attended = next(node for node in model.graph.node if node.op_type == "MatMul" and joined.output[0] in node.input)
    for number, value in enumerate((joined.input[1], attended.output[0])):
        read = _decoder("gpt2.dynamo")
        _read_too(value, how)(read)
        graph = ir.serde.deserialize_model(read)
        assert share_past(graph) == 2, number
        feeds = feeds_for("gpt2", sequence=1)
        expected, found = _run(read, feeds), _run(ir.serde.serialize_model(graph), feeds)
        for before, after in zip(expected, found, strict=True):
            np.testing.assert_allclose(after, before, atol=1e-5)


@pytest.mark.parametrize("how", ["an output", "a reader", "a branch"])
def test_weights_of_an_attention_that_somebody_else_reads_keep_it_as_it_is(how: str) -> None:
    model = _decoder("gpt2.dynamo")
    softmax = next(node for node in model.graph.node if node.op_type == "Softmax")
    _read_too(softmax.output[0], how)(model)
    assert f"'{KEY}' is joined to no keys or values of an attention" in str(
        share_past(ir.serde.deserialize_model(model))
    )


def _run(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))
