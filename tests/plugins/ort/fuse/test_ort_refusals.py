"""When rewrites of graphs decline: a table of small graphs, each changed in all ways that a rewrite may not know.

Each case is one graph that one rewrite changes. The same graph is then tried with an attribute that nobody knows on
each node, with each value inside read by somebody else too, inside a branch, in other types, and with operands of other
ranks. A rewrite declines, or what it makes computes the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_ir.passes.common import RemoveUnusedNodesPass
from ort_models import Array
from rewrite_cases import CASES, Case

from optim_plugins.ort.graph.inferred_shapes import infer_shapes
from optim_plugins.ort.graph.known_attributes import notes_on_unknown

STRANGE = "not_yet_invented"
FLOATS = {"float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small nets stand for large ones."""
    monkeypatch.setattr("optim_plugins.ort.fuse.convolution.neighbours_as_channels._LEAST_SAVED", 0)


def parsed(case: Case, weights: Mapping[str, Array] | None = None) -> onnx.ModelProto:
    head = f'<ir_version: 10, opset_import: ["" : {case.opset}, "com.microsoft" : 1]> g '
    model = onnx.parser.parse_model(head + case.text)
    read = {name for node in model.graph.node for name in node.input}
    for name, array in {**case.weights, **(weights or {})}.items():
        if name in read:
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    for node in model.graph.node:
        node.name = f"node_{node.output[0]}"
    return model


def inferred(model: onnx.ModelProto) -> ir.Model:
    graph = ir.serde.deserialize_model(model)
    infer_shapes(graph)
    return graph


def rewritten(case: Case, graph: ir.Model) -> tuple[int, onnx.ModelProto]:
    count = case.rewrite(graph)
    RemoveUnusedNodesPass()(graph)
    return int(count), ir.serde.serialize_model(graph)


def run(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    """What a model makes; None if onnxruntime has no kernels for it."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(feeds)), strict=True))
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error) or "of input parameter" in str(error):
            return None
        raise


def assert_same(
    before: onnx.ModelProto, after: onnx.ModelProto, feeds: Mapping[str, Array], limit: float = 1e-4
) -> None:
    expected, got = run(before, feeds), run(after, feeds)
    assert expected is not None
    assert got is not None
    assert list(got) == list(expected)
    for name, array in expected.items():
        assert (got[name].shape, got[name].dtype) == (array.shape, array.dtype)
        scale = max(1.0, float(np.abs(array.astype(np.float64)).max()))
        np.testing.assert_allclose(got[name].astype(np.float64), array.astype(np.float64), atol=limit * scale)


@pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))
def test_the_graph_of_each_case_is_rewritten_and_computes_the_same(case: Case) -> None:
    model = parsed(case)
    count, made = rewritten(case, inferred(model))
    assert count
    assert_same(model, made, case.feeds)


def nodes_of_cases() -> Iterator[Any]:
    for name, case in CASES.items():
        for place, node in enumerate(parsed(case).graph.node):
            yield pytest.param(case, place, id=f"{name}-{node.output[0]}")


@pytest.mark.parametrize(("case", "place"), list(nodes_of_cases()))
def test_a_node_with_an_attribute_that_nobody_knows_is_left_alone_and_named(case: Case, place: int) -> None:
    usual, _ = rewritten(case, inferred(parsed(case)))
    graph = inferred(parsed(case))
    node = list(graph.graph)[place]
    node.attributes[STRANGE] = ir.AttrInt64(STRANGE, 1)
    if node.op_type in case.stays or node.outputs[0].name in case.stays:
        _, made = rewritten(case, graph)
        assert any(one.name == STRANGE for left in made.graph.node for one in left.attribute)
        return
    count = case.rewrite(graph)
    assert count < usual
    assert f"{node.op_type} has attribute '{STRANGE}'" in "; ".join(notes_on_unknown(graph))


def values_of_cases() -> Iterator[Any]:
    for name, case in CASES.items():
        model = parsed(case)
        outputs = {value.name for value in model.graph.output}
        for value in [one for node in model.graph.node for one in node.output if one not in outputs]:
            yield pytest.param(case, value, id=f"{name}-{value}")


@pytest.mark.parametrize(("case", "value"), list(values_of_cases()))
@pytest.mark.parametrize("how", ["an output", "a reader"])
def test_a_value_that_somebody_else_reads_stays_what_it_is(case: Case, value: str, how: str) -> None:
    model = parsed(case)
    if how == "a reader":
        model.graph.node.append(helper.make_node("Identity", [value], ["further"], "node_further"))
        value = "further"
    model.graph.output.append(onnx.ValueInfoProto(name=value))
    model.graph.output[-1].type.tensor_type.elem_type = type_of(model, value)
    _, made = rewritten(case, inferred(model))
    assert_same(model, made, case.feeds)


def type_of(model: onnx.ModelProto, name: str) -> int:
    """The type of a value inside; float where onnx has no rule for it."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    del bare.graph.output[-1]
    values = onnx.shape_inference.infer_shapes(bare).graph.value_info
    return next((one.type.tensor_type.elem_type for one in values if one.name == name), TensorProto.FLOAT)


@pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))
def test_inside_a_branch_it_computes_the_same(case: Case) -> None:
    model = parsed(case)
    inner = onnx.GraphProto()
    inner.CopyFrom(model.graph)
    other = onnx.GraphProto()
    inner.name, other.name = "then", "else"
    del inner.input[:]
    del inner.initializer[:]
    for value in model.graph.output:
        shape = [len(value.type.tensor_type.shape.dim) and 1] * len(value.type.tensor_type.shape.dim)
        none = numpy_helper.from_array(
            np.zeros(shape, helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        )
        other.node.append(helper.make_node("Constant", [], [value.name], value=none))
        other.output.append(onnx.ValueInfoProto(name=value.name, type=value.type))
    for branch in (inner, other):
        for node in branch.node:
            node.output[:] = [name if name else "" for name in node.output]
    outputs = [f"{value.name}_outside" for value in model.graph.output]
    choice = helper.make_node("If", ["taken"], outputs, "choice", then_branch=inner, else_branch=other)
    del model.graph.node[:]
    model.graph.node.append(choice)
    for value, name in zip(model.graph.output, outputs, strict=True):
        value.name = name
        value.type.tensor_type.ClearField("shape")
    for value in [*inner.output, *other.output]:
        value.type.tensor_type.ClearField("shape")
    model.graph.input.append(helper.make_tensor_value_info("taken", TensorProto.BOOL, []))
    _, made = rewritten(case, inferred(model))
    assert_same(model, made, {**case.feeds, "taken": np.array(True)})


def as_float(model: onnx.ModelProto, kind: int) -> onnx.ModelProto:
    """The same graph in another type of float."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    for value in (*model.graph.input, *model.graph.output):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = kind
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT and tensor.name != "factors":
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(dtype), tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = kind
    return model


@pytest.mark.parametrize("dtype", list(FLOATS))
@pytest.mark.parametrize("case", list(CASES.values()), ids=list(CASES))
def test_in_another_type_it_computes_the_same(case: Case, dtype: str) -> None:
    model = as_float(parsed(case), FLOATS[dtype])
    feeds = {name: array.astype(dtype) if array.dtype == np.float32 else array for name, array in case.feeds.items()}
    _, made = rewritten(case, inferred(model))
    if run(model, feeds) is not None and (made == model or run(made, feeds) is not None or dtype == "float64"):
        assert_same(model, made, feeds, 1e-4 if dtype == "float64" else 2e-2)
    else:  # it has kernels on GPUs alone: then at least the graph must be sound
        of_floats = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE)
        kinds = {
            one.data_type for one in made.graph.initializer if one.data_type in of_floats and one.name != "factors"
        }
        assert kinds <= {FLOATS[dtype]}


def others_of_cases() -> Iterator[Any]:
    for (name, case), place in itertools.product(CASES.items(), range(6)):
        if place < len(case.others):
            yield pytest.param(case, case.others[place], id=f"{name}-{place}")


@pytest.mark.parametrize(("case", "weights"), list(others_of_cases()))
def test_operands_of_other_ranks_compute_the_same(case: Case, weights: Mapping[str, Array]) -> None:
    model = parsed(case, weights)
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    expected = run(model, case.feeds)
    assert expected is not None
    _, made = rewritten(case, inferred(model))
    assert_same(model, made, case.feeds)
