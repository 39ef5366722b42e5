"""When rewrites of graphs decline: a table of small graphs, each changed in all ways that a rewrite may not know.

Each case is one graph that one rewrite changes. The same graph is then tried with an attribute that nobody knows on
each node, with each value inside read by somebody else too, inside a branch, in other types, and with operands of other
ranks. A rewrite declines, or what it makes computes the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_ir.passes.common import RemoveUnusedNodesPass
from ort_models import Array, random_weight

from optim_plugins.ort.fuse.convolution.constants_in_full import write_constants_in_full
from optim_plugins.ort.fuse.convolution.enlarging import plain_repeats
from optim_plugins.ort.fuse.convolution.hard_sigmoid import fuse_hard_sigmoid
from optim_plugins.ort.fuse.convolution.neighbours_as_channels import take_neighbours
from optim_plugins.ort.fuse.convolution.softmax_first import softmax_first
from optim_plugins.ort.fuse.convolution.steps_ahead import fold_steps_ahead
from optim_plugins.ort.fuse.convolution.steps_behind import fold_steps_behind
from optim_plugins.ort.fuse.fuse_attention import fuse_attention
from optim_plugins.ort.fuse.fuse_rotary import fuse_rotary
from optim_plugins.ort.fuse.fuse_tanh_gelu import fuse_tanh_gelu
from optim_plugins.ort.fuse.pack_attention import pack_attention
from optim_plugins.ort.fuse.past.keep_logits import keep_logits
from optim_plugins.ort.fuse.simplify_rms import simplify_rms
from optim_plugins.ort.graph.inferred_shapes import infer_shapes
from optim_plugins.ort.graph.known_attributes import notes_on_unknown
from optim_plugins.ort.prepare.gemm_to_matmul import rewrite_gemms
from optim_plugins.ort.prepare.one_hot_lookups import look_up_one_hots
from optim_plugins.ort.prepare.recurrent.roll_lstms import roll_lstms
from optim_plugins.ort.prepare.shorten_masks import shorten_masks
from optim_plugins.ort.prepare.shorten_reshapes import shorten_reshapes

STRANGE = "not_yet_invented"
FLOATS = {"float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE}


def folded_behind(graph: ir.Model) -> int:
    folded = fold_steps_behind(graph)
    return folded.normalizations + folded.steps


@dataclass(frozen=True)
class Case:
    """A graph that a rewrite changes.

    Attributes:
        rewrite: in place; how often it fired.
        text: the graph's signature and nodes, as ``onnx.parser`` reads them.
        weights: initializers by name.
        feeds: one for each input.
        stays: operators of the graph that the rewrite leaves as they are, so that it need not know what they say.
        others: replacements of weights that change a rank or a shape.
    """

    rewrite: Callable[[ir.Model], int]
    text: str
    weights: Mapping[str, Array] = field(default_factory=dict)
    feeds: Mapping[str, Array] = field(default_factory=dict)
    stays: tuple[str, ...] = ()
    others: tuple[Mapping[str, Array], ...] = ()
    opset: int = 18


def floats(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def number(value: float, axes: int = 0) -> Array:
    return np.full((1,) * axes, value, np.float32)


def integers(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


X3 = {"x": random_weight(2, 3, 8)}
IMAGE = {"x": random_weight(1, 2, 5, 6, seed=3)}
CONV = random_weight(4, 2, 3, 3, seed=1)
PROJECTIONS = {f"w{name}": random_weight(8, 8, seed=ord(name)) for name in "qkv"}
HEADS = """
    qf = MatMul(x, wq) qs = Reshape(qf, split) q = Transpose <perm = [0, 2, 1, 3]> (qs)
    kf = MatMul(x, wk) ks = Reshape(kf, split) k = Transpose <perm = [0, 2, 3, 1]> (ks)
    vf = MatMul(x, wv) vs = Reshape(vf, split) v = Transpose <perm = [0, 2, 1, 3]> (vs)
"""
LSTM_STEP = """
    {to}_zh = Gemm <transB = 1> ({state}, r, a) {to}_zx = Gemm <transB = 1> ({given}, w, a)
    {to}_z = Add ({to}_zh, {to}_zx) {to}_0, {to}_1, {to}_2, {to}_3 = Split <axis = 1> ({to}_z, sizes)
    {to}_f = Sigmoid ({to}_1) {to}_i = Sigmoid ({to}_0) {to}_g = Tanh ({to}_2) {to}_o = Sigmoid ({to}_3)
    {to}_kept = Mul ({to}_f, {cell}) {to}_new = Mul ({to}_i, {to}_g)
    {to}_c = Add ({to}_kept, {to}_new) {to}_t = Tanh ({to}_c) {to} = Mul ({to}_o, {to}_t)
"""
LSTM = "".join(
    LSTM_STEP.format(
        to=f"s{one}", given=f"x{one}", state=f"s{one - 1}" if one else "h", cell=f"s{one - 1}_c" if one else "c"
    )
    for one in range(3)
)

CASES = {
    "pack_attention": Case(
        pack_attention,
        """(float[b, s, 8] x) => (float[b, s, 8] y) {
            q0 = MatMul(x, wq) q = Add(q0, bq) k = MatMul(x, wk) v0 = MatMul(x, wv) v = Add(bv, v0)
            y = com.microsoft.MultiHeadAttention <num_heads = 2, scale = 0.4> (q, k, v) }""",
        {**PROJECTIONS, "bq": random_weight(8), "bv": random_weight(8, seed=2)},
        X3,
        others=({"bq": random_weight(1, 8)}, {"bq": random_weight(1, 1, 8)}),
    ),
    "fuse_attention": Case(
        lambda graph: fuse_attention(graph)[0],
        """(float[b, s, 8] x) => (float[b, s, 8] y) {"""
        + HEADS
        + """product = MatMul(q, k) scaled = Mul(product, scale) weights = Softmax <axis = -1> (scaled)
            heads = MatMul(weights, v) joined = Transpose <perm = [0, 2, 1, 3]> (heads) y = Reshape(joined, merge) }""",
        {**PROJECTIONS, "split": integers(0, 0, 2, 4), "merge": integers(0, 0, 8), "scale": number(0.5)},
        X3,
        stays=("Reshape", "Transpose", "qf", "kf", "vf"),
        others=({"scale": number(0.5, 4)}, {"scale": random_weight(3)}),
    ),
    "fuse_rotary": Case(
        fuse_rotary,
        """(float[b, 2, s, 8] x, float[b, s, 4] a) => (float[b, 2, s, 8] y) {
            twice = Concat <axis = -1> (a, a) cos0 = Cos(twice) cos = Unsqueeze(cos0, one)
            sin0 = Sin(twice) sin = Unsqueeze(sin0, one) low = Slice(x, zero, four, three)
            high = Slice(x, four, eight, three) negative = Neg(high) crossed = Concat <axis = -1> (negative, low)
            straight = Mul(x, cos) turned = Mul(crossed, sin) y = Add(straight, turned) }""",
        {name: integers(value) for value, name in ((0, "zero"), (1, "one"), (3, "three"), (4, "four"), (8, "eight"))},
        {"x": random_weight(2, 2, 3, 8), "a": random_weight(2, 3, 4, seed=5)},
        stays=("Cos", "Sin", "twice"),
        others=({"one": integers(-3)}, {"four": integers(4, 4)[:1]}),
    ),
    "simplify_rms": Case(
        simplify_rms,
        """(float[b, s, 8] x) => (float[b, s, 8] y) { square = Pow(x, two) mean = ReduceMean(square, last)
            total = Add(mean, epsilon) root = Sqrt(total) inverse = Div(one, root) y = Mul(x, inverse) }""",
        {"two": number(2), "epsilon": number(1e-5), "one": number(1), "last": integers(-1)},
        X3,
        stays=("Pow", "ReduceMean", "Add", "Sqrt"),
        others=(*({"one": number(1, axes)} for axes in (1, 3, 4)), {"epsilon": number(1e-5, 4)}),
    ),
    "fuse_tanh_gelu": Case(
        fuse_tanh_gelu,
        """(float[b, s, 8] x) => (float[b, s, 8] y) { cube = Pow(x, three) small = Mul(cube, a) inner = Add(x, small)
            scaled = Mul(inner, root) t = Tanh(scaled) opened = Add(t, one) half = Mul(x, point_five)
            y = Mul(half, opened) }""",
        {
            "three": number(3),
            "a": number(0.044715),
            "root": number(np.sqrt(2 / np.pi)),
            "one": number(1),
            "point_five": number(0.5),
        },
        X3,
        others=({"one": number(1, 4)}, {"point_five": number(0.5, 4)}, {"a": number(0.044715, 4)}),
    ),
    "fuse_hard_sigmoid": Case(
        fuse_hard_sigmoid,
        """(float[1, 2, 5, 6] x) => (float[1, 2, 5, 6] y) {
            shifted = Add(x, three) clipped = Clip(shifted, zero, six)
            product = Mul(x, clipped) y = Div(product, six) }""",
        {"three": number(3), "zero": number(0), "six": number(6)},
        IMAGE,
        others=({"three": number(3, 4)}, {"three": number(3, 5)}, {"three": random_weight(1, 2, 1, 1)}),
    ),
    "fold_steps_behind": Case(
        folded_behind,
        """(float[1, 2, 5, 6] x) => (float[1, 4, 3, 4] y) { c = Conv(x, w) m = Mul(c, factor)
            y = BatchNormalization(m, scale, bias, mean, variance) }""",
        {
            "w": CONV,
            "factor": number(2),
            **{
                name: np.abs(random_weight(4, seed=one))
                for one, name in enumerate(("scale", "bias", "mean", "variance"))
            },
        },
        IMAGE,
        others=({"factor": random_weight(4, 1, 1)}, {"factor": random_weight(4)}, {"factor": number(2, 4)}),
    ),
    "fold_steps_ahead": Case(
        fold_steps_ahead,
        """(float[1, 2, 5, 6] x) => (float[1, 4, 3, 4] y, float[1, 4, 3, 4] z) {
            m = Mul(x, factor) y = Conv(m, w) z = Conv(m, v) }""",
        {"w": CONV, "v": CONV * 2, "factor": number(2)},
        IMAGE,
        others=({"factor": random_weight(2, 1, 1)}, {"factor": random_weight(6)}, {"factor": number(2, 4)}),
    ),
    "plain_repeats": Case(
        plain_repeats,
        """(float[1, 2, 5, 6] x) => (float[1, 2, 10, 12] y) { y = Resize <mode = "nearest"> (x, , factors) }""",
        {"factors": floats(1, 1, 2, 2)},
        IMAGE,
    ),
    "softmax_first": Case(
        softmax_first,
        """(float[1, 2, 5, 6] x) => (float[1, 5, 6, 2] y) {
            turned = Transpose <perm = [0, 3, 1, 2]> (x) s = Softmax <axis = 1> (turned)
            y = Transpose <perm = [0, 3, 1, 2]> (s) }""".replace("float[1, 5, 6, 2] y", "float[1, 5, 6, 2] y"),
        {},
        IMAGE,
        stays=("y",),
    ),
    "constants_in_full": Case(
        write_constants_in_full,
        """(float[n, 5, 6, 1] x) => (float[n, 5, 6, 1] y) { y = Mul(x, factor) }""",
        {"factor": number(2)},
        {"x": random_weight(2, 5, 6, 1)},
        others=({"factor": number(2, 4)}, {"factor": number(2, 5)}, {"factor": random_weight(5, 1, 1)}),
    ),
    "take_neighbours": Case(
        lambda graph: take_neighbours(graph, 16),
        """(float[1, 4, 6, 48] x) => (float[1, 4, 4, 40] y) { c = Conv(x, w) y = LeakyRelu <alpha = 0.2> (c) }""",
        {"w": random_weight(4, 4, 3, 9)},
        {"x": random_weight(1, 4, 6, 48)},
        stays=("LeakyRelu",),
    ),
    "shorten_reshapes": Case(
        shorten_reshapes,
        """(float[2, 3, 8] x) => (float[2, 3, 4] y) {
            flat = Reshape(x, rows) product = Gemm(flat, w, c) y = Reshape(product, back) }""",
        {"rows": integers(-1, 8), "w": random_weight(8, 4), "c": random_weight(4), "back": integers(2, 3, 4)},
        X3,
        others=({"c": random_weight(6, 4)}, {"c": random_weight(6, 1)}, {"c": random_weight(1, 4)}, {"c": number(2)}),
    ),
    "gemm_to_matmul": Case(
        rewrite_gemms,
        """(float[6, 8] x) => (float[6, 4] y) { y = Gemm <transB = 1> (x, w, c) }""",
        {"w": random_weight(4, 8), "c": random_weight(4)},
        {"x": random_weight(6, 8)},
        others=({"c": random_weight(6, 4)}, {"c": random_weight(6, 1)}, {"c": number(2)}),
    ),
    "look_up_one_hots": Case(
        look_up_one_hots,
        """(int32[2, 3, 1] x) => (float[2, 3, 4] y) {
            same = Equal(x, counted) hot = Cast <to = 1> (same) y = MatMul(hot, w) }""",
        {"counted": np.arange(5, dtype=np.int32), "w": random_weight(5, 4)},
        {"x": np.array([0, 1, 4, 7, -1, 2], np.int32).reshape(2, 3, 1)},
        others=({"w": random_weight(3, 5, 4)[0][None]}, {"counted": np.arange(1, 6, dtype=np.int32)}),
    ),
    "roll_lstms": Case(
        roll_lstms,
        """(float[n, 2] x0, float[n, 2] x1, float[n, 2] x2, float[n, 3] h, float[n, 3] c) => (float[n, 3] y) {"""
        + LSTM
        + "y = Identity(s2) }",
        {
            "w": random_weight(12, 2),
            "r": random_weight(12, 3, seed=1),
            "a": random_weight(12, seed=2),
            "sizes": integers(3, 3, 3, 3),
        },
        {
            **{f"x{one}": random_weight(2, 2, seed=one) for one in range(3)},
            "h": random_weight(2, 3),
            "c": random_weight(2, 3, seed=9),
        },
        stays=("y",),
        others=({"a": random_weight(1, 12)}, {"a": number(1)}),
    ),
    "shorten_masks": Case(
        shorten_masks,
        """(bool[2, 3] x, float[2, 3] z) => (float[2, 3] y) { found = GatherND(x, places)
            seen = And(found, always) e = Expand(seen, whole) y = Where(e, z, none) }""",
        {
            "places": np.indices((2, 3)).transpose(1, 2, 0).astype(np.int64),
            "always": np.ones((1, 1), bool),
            "whole": integers(2, 3),
            "none": number(0),
        },
        {"x": np.array([[1, 0, 1], [0, 0, 1]], bool), "z": random_weight(2, 3)},
        stays=("And", "Expand", "Where"),
        others=(
            {"places": np.zeros((2, 3, 2), np.int64)},
            {"places": np.indices((2, 3))[:, ::-1].transpose(1, 2, 0).copy()},
        ),
    ),
    "keep_logits": Case(
        keep_logits,
        """(float[b, s, 8] x) => (float[b, s, 8] logits) { m = MatMul(x, wq) n = LayerNormalization(m, g)
            logits = MatMul(n, wk) }""",
        {**PROJECTIONS, "g": random_weight(8)},
        X3,
        others=({"wk": random_weight(1, 8, 8)}, {"wq": random_weight(2, 8, 8)}),
    ),
}


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
