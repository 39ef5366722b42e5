"""Small graphs that feeds are loaded and made up for; each runs in onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from optim.model import Model
from optim.onnx.files import describe

FLOAT, INT64, INT32, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL


def value(name: str, dtype: int, shape: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name: str, array: object) -> onnx.TensorProto:
    return numpy_helper.from_array(np.asarray(array), name)


def build(
    nodes, inputs, outputs, initializers=(), *, opset=17, domains=(), functions=(), ir_version=9
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "small", list(inputs), list(outputs), list(initializers))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=list(functions))


def write(model: onnx.ModelProto, path: Path) -> Model:
    onnx.save(model, path)
    return describe(path)


def encoder(rows: int = 200, types: int = 2, batch: str = "batch", seq: str = "seq") -> onnx.ModelProto:
    """Embeds ids and types, weighs by the mask."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Cast", ["input_ids"], ["ids32"], to=INT32),
        helper.make_node("Gather", ["words", "ids32"], ["word"]),
        helper.make_node("Gather", ["kinds", "token_type_ids"], ["kind"]),
        helper.make_node("Add", ["word", "kind"], ["sum"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["weight"]),
        helper.make_node("Mul", ["sum", "weight"], ["hidden"]),
    ]
    inputs = [value(name, INT64, [batch, seq]) for name in ("input_ids", "attention_mask", "token_type_ids")]
    tables = [
        constant("words", rng.standard_normal((rows, 8), dtype=np.float32)),
        constant("kinds", rng.standard_normal((types, 8), dtype=np.float32)),
        constant("last", np.array([2])),
    ]
    return build(nodes, inputs, [value("hidden", FLOAT, [batch, seq, 8])], tables)


def decoder(
    *,
    past: str | int | None = "past",
    total: str | int | None = "total",
    seq: str | int | None = "seq",
    prefill: bool = True,
    positions: int = 256,
) -> onnx.ModelProto:
    """One attention over a cache: the mask must cover past and new tokens, ids and positions index tables."""
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["word"]),
        helper.make_node("Add", ["position_ids", "two"], ["shifted"]),
        helper.make_node("Gather", ["places", "shifted"], ["place"]),
        helper.make_node("Add", ["word", "place"], ["hidden"]),
        helper.make_node("Unsqueeze", ["hidden", "one"], ["query"]),
        helper.make_node("Concat", ["past_key_values.0.key", "query"], ["present.0.key"], axis=2),
        helper.make_node("Concat", ["past_key_values.0.value", "query"], ["present.0.value"], axis=2),
        helper.make_node("Transpose", ["present.0.key"], ["keys"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["query", "keys"], ["scores"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=FLOAT),
        helper.make_node("Unsqueeze", ["mask", "heads"], ["wide"]),
        helper.make_node("Add", ["scores", "wide"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "present.0.value"], ["logits"]),
    ]
    if not prefill:
        nodes[5:5] = [helper.make_node("Gather", ["past_key_values.0.key", "zero"], ["needs_a_past"], axis=2)]
    inputs = [
        value("input_ids", INT64, ["batch", seq]),
        value("attention_mask", INT64, ["batch", total]),
        value("position_ids", INT64, ["batch", seq]),
        value("past_key_values.0.key", FLOAT, ["batch", 1, past, 8]),
        value("past_key_values.0.value", FLOAT, ["batch", 1, past, 8]),
    ]
    outputs = [value("logits", FLOAT, None), value("present.0.key", FLOAT, None), value("present.0.value", FLOAT, None)]
    tables = [
        constant("words", rng.standard_normal((500, 8), dtype=np.float32)),
        constant("places", rng.standard_normal((positions + 2, 8), dtype=np.float32)),
        constant("two", np.array(2)),
        constant("one", np.array([1])),
        constant("heads", np.array([1, 2])),
        constant("zero", np.array([0])),
    ]
    return build(nodes, inputs, outputs, tables)


def image(dtype: int = FLOAT, shape=("batch", 3, None, None)) -> onnx.ModelProto:
    kernel = np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(helper.tensor_dtype_to_np_dtype(dtype))
    nodes = [helper.make_node("Conv", ["pixels", "kernel"], ["features"], strides=[16, 16])]
    return build(nodes, [value("pixels", dtype, shape)], [value("features", dtype, None)], [constant("kernel", kernel)])
