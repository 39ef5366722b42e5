"""Faults that are put into a model, one at a time: what a wrong rewrite, a wrong export or a wrong kernel would do.

Each fault names the places of a model at which it can be made (:attr:`Fault.places`), and makes it at one of them in a
copy of the model (:func:`mutants`). Graphs inside a graph (``If``, ``Loop``) are searched too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

Array = np.ndarray
_MOST_TRIED = 16
"""Nodes of one model that a fault is tried at: where it cannot be made at so many, it is of another kind of model."""

PRODUCTS = ("MatMul", "Gemm", "Conv")


@dataclass
class Surgery:
    """A model that is changed.

    Attributes:
        model: changed in place.
        shapes: of what products and softmaxes compute, by name, on the first sample.
        spreads: largest absolute value of each channel of these.
        ids: integers that the samples hold, most frequent first.
        count: of names that were given.
    """

    model: onnx.ModelProto
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    spreads: Mapping[str, Array] = field(default_factory=dict)
    ids: Sequence[int] = ()
    count: int = 0

    def graphs(self) -> Iterator[onnx.GraphProto]:
        """The main graph and all inside it."""
        found = [self.model.graph]
        while found:
            graph = found.pop()
            yield graph
            found += [one.g for node in graph.node for one in node.attribute if one.HasField("g")]

    def nodes(self) -> list[tuple[onnx.GraphProto, onnx.NodeProto]]:
        """All nodes, each with its graph; the order is the same in each copy of the model."""
        return [(graph, node) for graph in self.graphs() for node in graph.node]

    def constant(self, name: str) -> Array | None:
        """The value of an initializer, of a Constant node, or of the transpose of either."""
        for graph in self.graphs():
            for tensor in graph.initializer:
                if tensor.name == name:
                    return numpy_helper.to_array(tensor)
            for node in graph.node:
                if node.op_type == "Constant" and node.output[0] == name and node.attribute[0].name == "value":
                    return numpy_helper.to_array(node.attribute[0].t)
                if node.op_type == "Transpose" and node.output[0] == name:
                    value = self.constant(node.input[0])
                    order = [list(one.ints) for one in node.attribute if one.name == "perm"]
                    return None if value is None else np.transpose(value, *order)
        return None

    def replace(self, graph: onnx.GraphProto, node: onnx.NodeProto, place: int, value: Array) -> None:
        """Give one input of a node another constant; other readers of the old one keep it."""
        node.input[place] = self.new(graph, value)

    def new(self, graph: onnx.GraphProto, value: Array) -> str:
        """The name of a new constant."""
        self.count += 1
        name = f"mutated_{self.count}"
        graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def before(
        self, graph: onnx.GraphProto, node: onnx.NodeProto, place: int, make: Callable[[str, str], list[onnx.NodeProto]]
    ) -> None:
        """Put nodes between an input of a node and what gives it; ``make`` is told both names."""
        self.count += 1
        name = f"mutated_{self.count}"
        added = make(node.input[place], name)
        node.input[place] = name
        self._insert(graph, list(graph.node).index(node), added)

    def after(
        self, graph: onnx.GraphProto, node: onnx.NodeProto, make: Callable[[str, str], list[onnx.NodeProto]]
    ) -> None:
        """Put nodes behind the first output of a node; whoever read it reads what they give."""
        self.count += 1
        name = f"mutated_{self.count}"
        at = list(graph.node).index(node)
        added = make(name, node.output[0])
        node.output[0] = name
        self._insert(graph, at + 1, added)

    def _insert(self, graph: onnx.GraphProto, at: int, added: list[onnx.NodeProto]) -> None:
        nodes = [copy.deepcopy(one) for one in graph.node]
        del graph.node[:]
        graph.node.extend([*nodes[:at], *added, *nodes[at:]])

    def readers(self, name: str) -> list[onnx.NodeProto]:
        """Nodes that read a tensor."""
        return [node for _, node in self.nodes() if name in node.input]


Make = Callable[[Surgery, onnx.GraphProto, onnx.NodeProto], bool]
"""Makes a fault at a node; False if it cannot be made there, or would change nothing."""


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    Attributes:
        name: of a few words, for the table.
        operators: of nodes at which it may be made.
        make: it.
        is_fault: False for the control, which changes nothing.
    """

    name: str
    operators: tuple[str, ...]
    make: Make
    is_fault: bool = True


FAULTS: dict[str, Fault] = {}


def fault(name: str, *operators: str, is_fault: bool = True) -> Callable[[Make], Make]:
    """Register a kind of fault."""

    def register(make: Make) -> Make:
        FAULTS[name] = Fault(name, operators, make, is_fault)
        return make

    return register


def places(kind: Fault, whole: Surgery) -> Iterator[int]:
    """Nodes at which a fault may be possible, so that the first ones are spread over the model."""
    found = [number for number, (_, node) in enumerate(whole.nodes()) if node.op_type in kind.operators]
    yield from islice(_spread(found), _MOST_TRIED)


def _spread(found: list[int]) -> Iterator[int]:
    """The last, the first, the middle, then what lies between."""
    if not found:
        return
    order = [len(found) - 1, 0, len(found) // 2, len(found) // 4, 3 * len(found) // 4, *range(len(found))]
    yield from dict.fromkeys(found[place] for place in order)


def mutant(kind: Fault, whole: Surgery, number: int) -> onnx.ModelProto | None:
    """A copy of the model with a fault at a node; None if it cannot be made there."""
    model = onnx.ModelProto()
    model.CopyFrom(whole.model)
    surgery = Surgery(model, whole.shapes, whole.spreads, whole.ids)
    graph, node = surgery.nodes()[number]
    return model if kind.make(surgery, graph, node) else None


def looked_at(model: onnx.ModelProto, samples: Sequence[Mapping[str, Array]]) -> Surgery:
    """A model with what faults need to know of it: shapes and ranges on the first sample, and ids of all."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    wanted = {node.output[0]: node for node in probe.graph.node if node.op_type in (*PRODUCTS, "Softmax")}
    given = {one.name for one in probe.graph.output}
    probe.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in wanted if name not in given)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(probe.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_outputs()]
    inputs = {one.name for one in session.get_inputs()}
    feeds = {name: array for name, array in samples[0].items() if name in inputs}
    values = dict(zip(names, session.run(None, feeds), strict=True))
    integers = [array.ravel() for one in samples for array in one.values() if array.dtype.kind in "iu"]
    ids, counts = np.unique(np.concatenate(integers or [np.zeros(0, np.int64)]), return_counts=True)
    frequent = tuple(int(one) for one in ids[np.argsort(-counts, kind="stable")])
    shapes = {name: np.shape(values[name]) for name in wanted}
    return Surgery(model, shapes, {name: _spread_of(node, values[name]) for name, node in wanted.items()}, frequent)


def _spread_of(node: onnx.NodeProto, values: Any) -> Array:
    """The largest absolute value of each channel; nothing of other than float32."""
    if np.ndim(values) < 2 or values.dtype != np.float32 or not values.size:
        return np.zeros(0, np.float32)
    channels = np.moveaxis(np.abs(values), _channel_axis(node, values.ndim), 0)
    return np.asarray(channels.reshape(len(channels), -1).max(1))


def _channel_axis(node: onnx.NodeProto, rank: int) -> int:
    return 1 if node.op_type == "Conv" else rank - 1


def _weights(surgery: Surgery, node: onnx.NodeProto, rank: int = 2) -> Array | None:
    """The constant second input of a node, if it is of floating-point numbers and has so many dimensions at least."""
    value = surgery.constant(node.input[1]) if len(node.input) > 1 else None
    return value if value is not None and value.dtype.kind == "f" and value.ndim >= rank else None


def _output_axis(node: onnx.NodeProto) -> int:
    """The axis of a weight along which its outputs lie."""
    transposed = any(one.name == "transB" and one.i for one in node.attribute)
    return 0 if node.op_type == "Conv" or transposed else -1


def _changed(
    surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto, change: Callable[[Array], Array], rank: int = 2
) -> bool:
    """Change the weights of a node."""
    weights = _weights(surgery, node, rank)
    if weights is None:
        return False
    new = change(weights.copy()).astype(weights.dtype)
    if new.shape != weights.shape or np.array_equal(new, weights):
        return False
    surgery.replace(graph, node, 1, new)
    return True


@fault("nothing (control)", *PRODUCTS, "Add", "Mul", is_fault=False)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    surgery.after(graph, node, lambda before, after: [helper.make_node("Identity", [before], [after])])
    return True


@fault("a weight row zeroed (one input ignored)", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    def change(weights: Array) -> Array:
        moved = np.moveaxis(weights, 1 if _output_axis(node) == 0 else -2, 0)
        moved[len(moved) // 2] = 0
        return weights

    return _changed(surgery, graph, node, change)


@fault("an output channel zeroed", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    def change(weights: Array) -> Array:
        moved = np.moveaxis(weights, _output_axis(node), 0)
        moved[len(moved) // 2] = 0
        return weights

    return _changed(surgery, graph, node, change)


@fault("the sign of an output channel flipped", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    def change(weights: Array) -> Array:
        moved = np.moveaxis(weights, _output_axis(node), 0)
        moved[len(moved) // 3] *= -1
        return weights

    return _changed(surgery, graph, node, change)


@fault("two output channels exchanged", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    def change(weights: Array) -> Array:
        moved = np.moveaxis(weights, _output_axis(node), 0)
        if len(moved) < 4:
            return weights
        moved[[0, len(moved) // 2]] = moved[[len(moved) // 2, 0]]
        return weights

    return _changed(surgery, graph, node, change)


@fault("a bias dropped", "Add", "Gemm", "Conv")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    for place in range(2 if node.op_type != "Add" else 0, len(node.input)):
        bias = surgery.constant(node.input[place])
        if (
            bias is not None
            and bias.dtype.kind == "f"
            and bias.size > 1
            and bias.size == max(bias.shape)
            and bias.any()
        ):
            surgery.replace(graph, node, place, np.zeros_like(bias))
            return True
    return False


@fault("a scale doubled", "Mul", "LayerNormalization", "BatchNormalization", "SimplifiedLayerNormalization")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    for place in range(0 if node.op_type == "Mul" else 1, 2):
        scale = surgery.constant(node.input[place])
        if scale is not None and scale.dtype.kind == "f" and scale.any():
            surgery.replace(graph, node, place, scale * 2)
            return True
    return False


@fault("weights of a layer a tenth too large", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    return _changed(surgery, graph, node, lambda weights: weights * 1.1)


@fault("an axis swapped (square weight or kernel transposed)", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    return _changed(surgery, graph, node, lambda weights: np.swapaxes(weights, -1, -2))


@fault("a kernel mirrored", "Conv")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    return _changed(surgery, graph, node, lambda weights: weights[..., ::-1], rank=3)


@fault("padding on one side", "Conv", "MaxPool", "AveragePool")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    for one in node.attribute:
        if one.name == "pads" and len(one.ints) == 4 and one.ints[0] == one.ints[2] > 0:
            one.ints[:] = [0, 0, one.ints[0] + one.ints[2], one.ints[1] + one.ints[3]]
            return True
    return False


@fault("a mask inverted", "Where", "Cast", "Unsqueeze", "Expand")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    if node.op_type == "Where":
        node.input[1], node.input[2] = node.input[2], node.input[1]
        return True
    name = node.input[0]
    kind = next((one.type.tensor_type.elem_type for one in surgery.model.graph.input if one.name == name), 0)
    if "mask" not in name.lower() or kind not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32):
        return False
    one = surgery.new(graph, np.ones((), helper.tensor_dtype_to_np_dtype(kind)))
    surgery.before(graph, node, 0, lambda before, after: [helper.make_node("Sub", [one, before], [after])])
    return True


def _is_attention(surgery: Surgery, node: onnx.NodeProto) -> bool:
    readers = surgery.readers(node.output[0])
    guarded = [one for reader in readers if reader.op_type == "Where" for one in surgery.readers(reader.output[0])]
    return any(reader.op_type == "MatMul" for reader in (*readers, *guarded))


@fault("attention ignores its last key", "Softmax")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    if not _is_attention(surgery, node) or surgery.shapes.get(node.output[0], (2,))[-1] < 2:
        return False
    last, end, axis, start = (surgery.new(graph, np.array([value], np.int64)) for value in (-1, 2**31 - 1, -1, 0))
    low = surgery.new(graph, np.full((), -1e9, np.float32))
    base = f"mutated_last_key_{surgery.count}"

    def make(before: str, after: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Slice", [before, start, last, axis], [base + "a"]),
            helper.make_node("Slice", [before, last, end, axis], [base + "b"]),
            helper.make_node("Min", [base + "b", low], [base + "c"]),
            helper.make_node("Concat", [base + "a", base + "c"], [after], axis=-1),
        ]

    surgery.before(graph, node, 0, make)
    return True


@fault("a softmax sharper by half", "Softmax")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    factor = surgery.new(graph, np.full((), 1.5, np.float32))
    surgery.before(graph, node, 0, lambda before, after: [helper.make_node("Mul", [before, factor], [after])])
    return True


@fault("two heads exchanged", "Softmax")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    shape = surgery.shapes.get(node.output[0], ())
    if len(shape) != 4 or shape[1] < 2 or not _is_attention(surgery, node):
        return False
    order = np.arange(shape[1])
    order[:2] = 1, 0
    places = surgery.new(graph, order)
    surgery.after(graph, node, lambda before, after: [helper.make_node("Gather", [before, places], [after], axis=1)])
    return True


@fault(
    "epsilon is 0.1",
    "LayerNormalization",
    "BatchNormalization",
    "InstanceNormalization",
    "Add",
    "SimplifiedLayerNormalization",
)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    if node.op_type != "Add":
        rest = [one for one in node.attribute if one.name != "epsilon"]
        del node.attribute[:]
        node.attribute.extend([*rest, helper.make_attribute("epsilon", 0.1)])
        return True
    for place, name in enumerate(node.input):
        value = surgery.constant(name)
        if value is not None and value.size == 1 and value.dtype.kind == "f" and 0 < float(value.ravel()[0]) <= 1e-3:
            surgery.replace(graph, node, place, np.full_like(value, 0.1))
            return True
    return False


@fault("a token's embedding replaced", "Gather")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    table = surgery.constant(node.input[0])
    if table is None or table.dtype.kind != "f" or table.ndim != 2 or len(table) < 8:
        return False
    used = [one for one in surgery.ids if 0 <= one < len(table)]
    if not used:
        return False
    new = table.copy()
    token = used[len(used) // 2]
    new[token] = table[(token + len(table) // 2) % len(table)]
    surgery.replace(graph, node, 0, new)
    return True


def _range(surgery: Surgery, node: onnx.NodeProto) -> float:
    """The largest absolute value that a product gives; 0 if it is not known."""
    return float(max(surgery.spreads.get(node.output[0], ()), default=0.0))


@fault("a layer rounds down, to 8 bits", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    largest = _range(surgery, node)
    if not largest:
        return False
    up, down = (surgery.new(graph, np.full((), value, np.float32)) for value in (127 / largest, largest / 127))
    base = f"mutated_down_{surgery.count}"

    def make(before: str, after: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Mul", [before, up], [base + "a"]),
            helper.make_node("Floor", [base + "a"], [base + "b"]),
            helper.make_node("Mul", [base + "b", down], [after]),
        ]

    surgery.after(graph, node, make)
    return True


@fault("a layer saturates at half its range", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    largest = _range(surgery, node)
    if not largest:
        return False
    low, high = (surgery.new(graph, np.full((), sign * largest / 2, np.float32)) for sign in (-1, 1))
    surgery.after(graph, node, lambda before, after: [helper.make_node("Clip", [before, low, high], [after])])
    return True


@fault("one channel saturates at a quarter of its range", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    if not _range(surgery, node):
        return False
    spread, rank = surgery.spreads[node.output[0]], len(surgery.shapes[node.output[0]])
    limit = np.full(len(spread), np.inf, np.float32)
    channel = int(spread.argmax())
    limit[channel] = spread[channel] / 4
    shaped = limit.reshape([-1, *[1] * (rank - 1 - _channel_axis(node, rank))])
    high, low = surgery.new(graph, shaped), surgery.new(graph, -shaped)
    base = f"mutated_channel_{surgery.count}"

    def make(before: str, after: str) -> list[onnx.NodeProto]:
        return [helper.make_node("Min", [before, high], [base]), helper.make_node("Max", [base, low], [after])]

    surgery.after(graph, node, make)
    return True


@fault("a layer's weights in 3 bits", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    def change(weights: Array) -> Array:
        step = float(np.abs(weights).max()) / 3 or 1.0
        return np.round(weights / step) * step

    return _changed(surgery, graph, node, change)


@fault("a layer's zero point off by one of 8 bits", *PRODUCTS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    return _changed(surgery, graph, node, lambda weights: weights + np.abs(weights).max() / 127)


OTHERS = {
    "Relu": "Abs",
    "Sigmoid": "HardSigmoid",
    "Tanh": "Softsign",
    "Erf": "Tanh",
    "HardSwish": "Relu",
    "Gelu": "Relu",
}


@fault("another activation", *OTHERS)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    node.op_type = OTHERS[node.op_type]
    node.domain = ""
    del node.attribute[:]
    if node.op_type == "LeakyRelu":
        node.attribute.append(helper.make_attribute("alpha", 0.1))
    return True


@fault("a shortcut dropped", "Add")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    if any(surgery.constant(name) is not None for name in node.input):
        return False
    makers = {made: one.op_type for _, one in surgery.nodes() for made in one.output}
    kinds = [makers.get(name, "") for name in node.input]
    computed = [place for place, kind in enumerate(kinds) if kind in (*PRODUCTS, "Add", "BatchNormalization", "Mul")]
    if len(computed) != 2:
        return False
    name = node.input[1]
    node.op_type = "Identity"
    del node.input[:]
    node.input.append(name)
    return True


@fault("two gates of an LSTM exchanged", "LSTM", "GRU")
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    def change(weights: Array) -> Array:
        size = weights.shape[1] // (4 if node.op_type == "LSTM" else 3)
        first, second = weights[:, :size].copy(), weights[:, size : 2 * size].copy()
        weights[:, :size], weights[:, size : 2 * size] = second, first
        return weights

    return _changed(surgery, graph, node, change, rank=3)


def _is_output(surgery: Surgery, node: onnx.NodeProto) -> Any:
    return next((one for one in surgery.model.graph.output if one.name == node.output[0]), None)


ANY = (
    "Add",
    "MatMul",
    "Gemm",
    "Conv",
    "Softmax",
    "Sigmoid",
    "Reshape",
    "Transpose",
    "Concat",
    "Mul",
    "Squeeze",
    "LayerNormalization",
    "Unsqueeze",
    "Cast",
    "If",
    "ReduceMean",
    "Div",
    "Identity",
    "Where",
    "Tanh",
)


@fault("an output one position late", *ANY)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    output = _is_output(surgery, node)
    if output is None or graph is not surgery.model.graph:
        return False
    kind = output.type.tensor_type
    if kind.elem_type != onnx.TensorProto.FLOAT or len(kind.shape.dim) < 3:
        return False
    start, last, end, axis = (surgery.new(graph, np.array([value], np.int64)) for value in (0, -1, 2**31 - 1, -2))
    base = f"mutated_late_{surgery.count}"

    def make(before: str, after: str) -> list[onnx.NodeProto]:
        return [
            helper.make_node("Slice", [before, start, last, axis], [base + "a"]),
            helper.make_node("Slice", [before, last, end, axis], [base + "b"]),
            helper.make_node("Concat", [base + "b", base + "a"], [after], axis=-2),
        ]

    surgery.after(graph, node, make)
    return True


@fault("an output a tenth too small", *ANY)
def _(surgery: Surgery, graph: onnx.GraphProto, node: onnx.NodeProto) -> bool:
    output = _is_output(surgery, node)
    if (
        output is None
        or graph is not surgery.model.graph
        or output.type.tensor_type.elem_type != onnx.TensorProto.FLOAT
    ):
        return False
    factor = surgery.new(graph, np.full((), 0.9, np.float32))
    surgery.after(graph, node, lambda before, after: [helper.make_node("Mul", [before, factor], [after])])
    return True
