from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import Array, apply, build, operators, proto, random_weight, relative_l2, stored

from optim import Model, PassResult
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.pack_attention import pack_attention

LOSSLESS = 1e-4
BATCH, LENGTH, HEADS, SIZE = 2, 6, 4, 8
HIDDEN = HEADS * SIZE


class Graph:
    """Attention as older exporters write it; each part can be replaced."""

    def __init__(self, *, opset: int = 17, dtype: type[np.generic] = np.float32) -> None:
        self.opset = opset
        self.dtype = dtype
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.inputs: dict[str, tuple[int, list[int | str]]] = {}
        self.outputs: dict[str, list[int | str]] = {"y": ["b", "s", HIDDEN]}

    def constant(self, name: str, array: Array) -> str:
        self.weights[name] = array
        return name

    def number(self, name: str, number: float) -> str:
        return self.constant(name, np.array(number, self.dtype))

    def add(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(operator, inputs, [output], name=f"node_{output}", **attributes))
        return output

    def heads(self, name: str, source: str = "x", *, heads: int = HEADS, order: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        weight = self.constant(f"w{name}", random_weight(HIDDEN, heads * SIZE, seed=ord(name)).astype(self.dtype) / 3)
        flat = self.add("MatMul", [source, weight], f"{name}_flat")
        shape = self.constant(f"{name}_shape", np.array([0, 0, heads, SIZE]))
        split = self.add("Reshape", [flat, shape], f"{name}_split")
        return self.add("Transpose", [split], name, perm=order)

    def scores(self, query: str = "q", keys: str = "k", *, scale: float = SIZE**-0.5) -> str:
        product = self.add("MatMul", [query, keys], "product")
        return self.add("Mul", [product, self.number("scale", scale)], "scaled")

    def finish(self, scores: str, value: str = "v", **softmax: Any) -> None:
        weights = self.add("Softmax", [scores], "weights", **({"axis": 3} | softmax))
        self.result(self.add("MatMul", [weights, value], "heads"))

    def result(self, heads: str) -> None:
        joined = self.add("Transpose", [heads], "joined", perm=[0, 2, 1, 3])
        self.add("Reshape", [joined, self.constant("y_shape", np.array([0, 0, HIDDEN]))], "y")

    def store(self, folder: Path) -> Model:
        element = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        inputs = {"x": (element, ["b", "s", HIDDEN])} | self.inputs
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
            [helper.make_tensor_value_info(name, element, shape) for name, shape in self.outputs.items()],
            [numpy_helper.from_array(array, name) for name, array in self.weights.items()],
        )
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", self.opset)])
        onnx.checker.check_model(model)
        onnx.save(model, folder / "built.onnx")
        return stored(folder / "built.onnx", folder)


def feeds(**more: Array) -> dict[str, Array]:
    return {"x": random_weight(BATCH, LENGTH, HIDDEN), **more}


def fused(graph: Graph, folder: Path, **more: Array) -> PassResult:
    """Fused without its projections, and shown to compute the same."""
    model = graph.store(folder)
    result = apply(FuseTransformer, model, folder, leave_out=("attention",))
    if result.changed:
        assert relative_l2(model, result.model, feeds(**more)) <= LOSSLESS
    return result


def plain(**settings: Any) -> Graph:
    graph = Graph(**settings)
    graph.heads("q")
    graph.heads("k", order=(0, 2, 3, 1))
    graph.heads("v")
    return graph


def attribute(model: Model, operator: str, name: str) -> Any:
    node = next(node for node in proto(model).graph.node if node.op_type == operator)
    return next(helper.get_attribute_value(entry) for entry in node.attribute if entry.name == name)


def padding(hidden: float) -> Array:
    mask = np.zeros((BATCH, 1, 1, LENGTH), np.float32)
    mask[1, ..., :2] = hidden
    return mask


@pytest.mark.parametrize("opset", [11, 13, 17, 20])
def test_attention_without_a_mask(opset: int, tmp_path: Path) -> None:
    graph = plain(opset=opset)
    graph.finish(graph.scores())

    result = fused(graph, tmp_path)

    assert dict(result.counts) == {"multi_head_attention": 1}
    assert sorted(operators(result.model)) == ["MatMul", "MatMul", "MatMul", "MultiHeadAttention"]
    assert attribute(result.model, "MultiHeadAttention", "num_heads") == HEADS


def test_a_mask_of_one_number_is_spread_over_all_scores(tmp_path: Path) -> None:
    graph = plain()
    graph.finish(graph.add("Add", [graph.scores(), graph.number("shift", -3.0)], "masked"))

    result = fused(graph, tmp_path)

    assert dict(result.counts) == {"multi_head_attention": 1}


def test_the_scale_may_be_spread_over_queries_keys_and_scores(tmp_path: Path) -> None:
    graph = plain()
    query = graph.add("Div", ["q", graph.number("two", 2.0)], "q_scaled")
    keys = graph.add("Mul", [graph.number("half", 0.5), "k"], "k_scaled")
    graph.finish(graph.scores(query, keys, scale=0.75))

    result = fused(graph, tmp_path)

    assert attribute(result.model, "MultiHeadAttention", "scale") == pytest.approx(0.75 / 4)


def test_a_padding_mask_of_an_eager_export_is_given_rows(tmp_path: Path) -> None:
    graph = plain()
    graph.inputs["mask"] = (TensorProto.FLOAT, ["b", 1, 1, "t"])
    graph.finish(graph.add("Add", [graph.scores(), "mask"], "masked"))

    result = fused(graph, tmp_path, mask=padding(-10000.0))

    assert dict(result.counts) == {"multi_head_attention": 1}
    assert "Expand" in operators(result.model)


def test_a_constant_causal_mask_without_batch_and_heads(tmp_path: Path) -> None:
    graph = plain()
    causal = np.triu(np.full((LENGTH, LENGTH), -3.4e38, np.float32), 1)
    graph.finish(graph.add("Add", [graph.constant("causal", causal), graph.scores()], "masked"))

    assert fused(graph, tmp_path).changed


@pytest.mark.parametrize("hidden_side", [1, 2])
@pytest.mark.parametrize("hidden", [-10000.0, -np.inf])
def test_a_condition_that_fills_in_hidden_scores(hidden: float, hidden_side: int, tmp_path: Path) -> None:
    graph = plain()
    graph.inputs["seen"] = (TensorProto.BOOL, ["b", 1, "s", "t"])
    sides = [graph.scores(), graph.number("hidden", hidden)]
    graph.finish(graph.add("Where", ["seen", *(sides if hidden_side == 2 else sides[::-1])], "masked"))
    seen = np.broadcast_to(np.tril(np.ones((LENGTH, LENGTH), bool)), (BATCH, 1, LENGTH, LENGTH)).copy()

    result = fused(graph, tmp_path, seen=seen if hidden_side == 2 else ~seen)

    assert dict(result.counts) == {"multi_head_attention": 1}


@pytest.mark.parametrize("opset", [17, 20])
def test_rows_that_see_nothing_stay_zero(opset: int, tmp_path: Path) -> None:
    graph = plain(opset=opset)
    graph.inputs["seen"] = (TensorProto.BOOL, ["b", 1, "s", "t"])
    mask = graph.add("Where", ["seen", graph.number("zero", 0.0), graph.number("hidden", -np.inf)], "mask")
    weights = graph.add("Softmax", [graph.add("Add", [graph.scores(), mask], "masked")], "weights", axis=-1)
    blind = graph.add("IsNaN", [weights], "blind")
    kept = graph.add("Where", [blind, "zero", weights], "kept")
    graph.result(graph.add("MatMul", [kept, "v"], "heads"))
    seen = np.broadcast_to(np.tril(np.ones((LENGTH, LENGTH), bool)), (BATCH, 1, LENGTH, LENGTH)).copy()
    seen[1, :, :, :2] = False

    result = fused(graph, tmp_path, seen=seen)

    assert dict(result.counts) == {"multi_head_attention": 1}


def test_a_mask_that_differs_between_heads(tmp_path: Path) -> None:
    graph = plain()
    distances = random_weight(1, HEADS, LENGTH, LENGTH)
    graph.finish(graph.add("Add", [graph.scores(), graph.constant("bias", distances)], "masked"))

    assert fused(graph, tmp_path).changed


def test_keys_and_values_joined_to_a_past_stay_split_into_heads(tmp_path: Path) -> None:
    graph = Graph()
    graph.inputs |= {name: (TensorProto.FLOAT, ["b", HEADS, "p", SIZE]) for name in ("past_k", "past_v")}
    graph.heads("q")
    keys = graph.add("Concat", ["past_k", graph.heads("k")], "keys", axis=2)
    values = graph.add("Concat", ["past_v", graph.heads("v")], "values", axis=2)
    transposed = graph.add("Transpose", [keys], "transposed", perm=[0, 1, 3, 2])
    graph.finish(graph.scores(keys=transposed), values)
    past = {name: random_weight(BATCH, HEADS, 5, SIZE, seed=seed) for seed, name in enumerate(graph.inputs)}

    assert fused(graph, tmp_path, **past).changed


def test_a_past_of_other_heads_than_the_queries_is_shared(tmp_path: Path) -> None:
    graph = Graph(opset=11)
    graph.heads("q")
    for name in ("k", "v"):
        graph.heads(name, heads=2)
        lifted = graph.add("Unsqueeze", [name], f"{name}_lifted", axes=[2])
        twice = graph.constant("twice", np.array([1, 1, 2, 1, 1]))
        repeated = graph.add("Expand", [lifted, twice], f"{name}_repeated")
        graph.add("Reshape", [repeated, graph.constant("merged", np.array([0, HEADS, -1, SIZE]))], f"{name}_merged")
    transposed = graph.add("Transpose", ["k_merged"], "transposed", perm=[0, 1, 3, 2])
    graph.finish(graph.scores(keys=transposed), "v_merged")

    result = fused(graph, tmp_path)

    assert attribute(result.model, "MultiHeadAttention", "num_heads") == 2
    assert "Expand" not in operators(result.model)


def test_attention_between_two_sequences(tmp_path: Path) -> None:
    graph = Graph()
    graph.inputs["memory"] = (TensorProto.FLOAT, ["b", "m", HIDDEN])
    graph.heads("q")
    graph.heads("k", "memory", order=(0, 2, 3, 1))
    graph.heads("v", "memory")
    graph.finish(graph.scores())

    model = graph.store(tmp_path)
    result = apply(FuseTransformer, model, tmp_path)

    assert dict(result.counts) == {"multi_head_attention": 1}
    assert relative_l2(model, result.model, feeds(memory=random_weight(BATCH, 9, HIDDEN, seed=1))) <= LOSSLESS


@pytest.mark.parametrize("said", [{"unidirectional": 1}, {"mask_filter_value": -5.0}])
def test_attention_that_says_more_than_heads_and_scale_keeps_its_projections(
    said: dict[str, Any], tmp_path: Path
) -> None:
    names = "qkv"
    nodes = [helper.make_node("MatMul", ["x", f"w{name}"], [name]) for name in names]
    nodes += [helper.make_node("MultiHeadAttention", [*names], ["y"], "a", domain="com.microsoft", num_heads=4, **said)]
    nodes += [helper.make_node("MatMul", ["y", "wq"], ["z"]), helper.make_node("Softmax", ["z"], ["p"])]
    weights = {f"w{name}": random_weight(HIDDEN, HIDDEN, seed=ord(name)) / 3 for name in names}
    model = build(tmp_path, nodes, weights, {"x": ["b", "s", HIDDEN]}, {"p": ["b", "s", HIDDEN]})
    result = apply(FuseTransformer, model, tmp_path)
    assert operators(result.model).count("MultiHeadAttention") == 1
    assert any(f"MultiHeadAttention has attribute '{next(iter(said))}'" in note for note in result.notes)
    assert relative_l2(model, result.model, feeds()) <= LOSSLESS


def test_projections_without_a_bias_get_one_of_their_own_type() -> None:
    graph = ir.serde.deserialize_model(
        onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
        g (float16[b, s, 2] x) => (float16[b, s, 2] y) <float16[2, 2] w = {1, 2, 3, 4}, float16[2] c = {1, 2}> {
            q0 = MatMul(x, w) q = Add(q0, c) k = MatMul(x, w)
            y = com.microsoft.MultiHeadAttention <num_heads = 1> (q, k, q) }""")
    )
    assert pack_attention(graph) == 1
    (node,) = [node for node in graph.graph if node.op_type == "Attention"]
    assert [value.const_value.dtype for value in node.inputs[1:3]] == [ir.DataType.FLOAT16] * 2


def declined(graph: Graph, folder: Path) -> tuple[str, ...]:
    result = apply(FuseTransformer, graph.store(folder), folder)
    assert not result.changed
    return result.notes


def test_attention_weights_that_are_an_output_are_left(tmp_path: Path) -> None:
    graph = plain()
    graph.finish(graph.scores())
    graph.outputs["weights"] = ["b", HEADS, "s", "s"]

    assert declined(graph, tmp_path) == (
        "not fused: node_weights: its weights are read by more than the product with the values",
    )


def test_half_precision_is_left(tmp_path: Path) -> None:
    graph = plain(dtype=np.float16)
    graph.finish(graph.scores())

    assert declined(graph, tmp_path) == ("not fused: node_weights: its numbers are not float32",)


def test_a_scale_on_the_masked_scores_is_left(tmp_path: Path) -> None:
    graph = plain()
    graph.inputs["mask"] = (TensorProto.FLOAT, ["b", 1, 1, "t"])
    masked = graph.add("Add", [graph.add("MatMul", ["q", "k"], "product"), "mask"], "masked")
    graph.finish(graph.add("Mul", [masked, graph.number("scale", 0.5)], "scaled"))

    notes = declined(graph, tmp_path)

    assert notes == (
        "not fused: node_weights: its scores are not a product of queries and keys, scaled and then masked",
    )


def test_a_softmax_over_another_axis_is_left(tmp_path: Path) -> None:
    graph = plain()
    graph.finish(graph.scores(), axis=2)

    assert declined(graph, tmp_path) == ("not fused: node_weights: it is not over the last of four axes",)


def test_a_number_of_heads_known_only_when_running_is_left(tmp_path: Path) -> None:
    graph = plain()
    graph.weights["q_shape"] = np.array([0, 0, -1, SIZE])
    graph.inputs["x"] = (TensorProto.FLOAT, ["b", "s", HIDDEN])
    graph.nodes.insert(0, helper.make_node("Identity", ["unknown"], ["wq"]))
    del graph.weights["wq"]
    graph.inputs["unknown"] = (TensorProto.FLOAT, [HIDDEN, "width"])
    graph.finish(graph.scores())

    assert declined(graph, tmp_path) == ("not fused: node_weights: its number of heads or their size is not fixed",)


def test_a_mask_that_differs_between_heads_that_share_keys_is_left(tmp_path: Path) -> None:
    graph = Graph()
    graph.heads("q")
    for name in ("k", "v"):
        graph.heads(name, heads=2)
        lifted = graph.add("Unsqueeze", [name, graph.constant("two", np.array([2]))], f"{name}_lifted")
        repeated = graph.add("Expand", [lifted, graph.constant("twice", np.array([1, 1, 2, 1, 1]))], f"{name}_repeated")
        graph.add("Reshape", [repeated, graph.constant("merged", np.array([0, HEADS, -1, SIZE]))], f"{name}_merged")
    transposed = graph.add("Transpose", ["k_merged"], "transposed", perm=[0, 1, 3, 2])
    bias = graph.constant("bias", random_weight(1, HEADS, LENGTH, LENGTH))
    graph.finish(graph.add("Add", [graph.scores(keys=transposed), bias], "masked"), "v_merged")

    assert declined(graph, tmp_path) == ("not fused: node_weights: its mask differs between heads that share keys",)
