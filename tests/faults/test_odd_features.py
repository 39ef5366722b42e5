"""Features of ONNX that hardly any exporter writes: each ends in an answer, or in the error that names it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
from case import Case, hold, rows
from feed_models import FLOAT, build, constant, value
from onnx import TensorProto, helper
from world import World

VERIFY = ("verify", "{model}", "{model}")
X, Y = value("x", FLOAT, ["n", 16]), value("y", FLOAT, ["n", 16])


def weight(name: str = "w") -> onnx.TensorProto:
    return constant(name, np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32))


def matmul(change: Callable[[onnx.ModelProto], object] = lambda model: None) -> onnx.ModelProto:
    model = build([helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], [X], [Y], [weight()])
    change(model)
    return model


def sparse(dims: list[int], values: list[float], indices: list[int], places: int = 1) -> onnx.ModelProto:
    model = matmul(lambda model: model.graph.ClearField("initializer"))
    shape = [len(values)] if places == 1 else [len(values), places]
    named = helper.make_tensor("w", TensorProto.FLOAT, [len(values)], values)
    at = helper.make_tensor("at", TensorProto.INT64, shape, indices)
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(named, at, dims))
    return model


def function(**attributes: float) -> onnx.ModelProto:
    """With a function that takes an attribute."""
    alpha = helper.make_node("Constant", [], ["c"])
    alpha.attribute.add(name="value_float", ref_attr_name="alpha", type=onnx.AttributeProto.FLOAT)
    body = [alpha, helper.make_node("Mul", ["a", "c"], ["b"])]
    made = helper.make_function("own", "Scale", ["a"], ["b"], body, [helper.make_opsetid("", 17)], ["alpha"])
    model = matmul(lambda model: model.graph.node[0].output.__setitem__(0, "z"))
    model.functions.append(made)
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.append(helper.make_node("Scale", ["z"], ["y"], domain="own", **attributes))
    return model


def twice(model: onnx.ModelProto) -> onnx.ModelProto:
    model.functions.append(model.functions[0])
    return model


def branches(weight_of_branch: str = "k") -> onnx.ModelProto:
    """With nodes and weights of one name in both branches; a weight may shadow that outside."""

    def branch(number: float) -> onnx.GraphProto:
        node = helper.make_node("Mul", ["z", weight_of_branch], ["o"], name="same")
        return helper.make_graph(
            [node], "g", [], [value("o", FLOAT, None)], [constant(weight_of_branch, np.float32(number))]
        )

    first = helper.make_node("MatMul", ["x", "w"], ["z"], name="same")
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch(2), else_branch=branch(3))
    return build([first, choice], [X, value("c", TensorProto.BOOL, [])], [Y], [weight()])


def external(*places: Mapping[str, str]) -> onnx.ModelProto:
    """With a weight for each place, in a file beside the model."""
    names = ["x", *(f"z{number}" for number in range(len(places) - 1)), "y"]
    nodes = [
        helper.make_node("MatMul", [names[number], f"w{number}"], [names[number + 1]]) for number in range(len(places))
    ]
    tensors = [weight(f"w{number}") for number in range(len(places))]
    for tensor, place in zip(tensors, places, strict=True):
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, text in {"location": "d.bin", **place}.items():
            tensor.external_data.add(key=key, value=text)
    return build(nodes, [X], [Y], tensors)


def quantized(kind: int, size: int) -> onnx.ModelProto:
    nodes = [helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])]
    tensor = onnx.TensorProto(name="w", data_type=kind, dims=[16, 16], raw_data=bytes(size))
    return build(nodes, [X], [Y], [tensor, constant("s", np.float32(0.1))], opset=21)


def plain(kind: int, shape: list, operator: str = "Identity") -> onnx.ModelProto:
    return build([helper.make_node(operator, ["x"], ["y"])], [value("x", kind, shape)], [value("y", kind, shape)])


RIGHT = {
    "a sparse weight": lambda: sparse([16, 16], [1.0, 2.0], [3, 7]),
    "a function with an attribute": lambda: function(alpha=2.0),
    "names twice across branches": branches,
    "a branch that shadows a weight": lambda: branches("w"),
    "data that overlaps": lambda: external({"offset": "0", "length": "1024"}, {"offset": "512", "length": "1024"}),
    "a quantization annotation": lambda: matmul(
        lambda m: m.graph.quantization_annotation.add(tensor_name="w").quant_parameter_tensor_names.add(
            key="SCALE_TENSOR", value="gone"
        )
    ),
    "training information": lambda: matmul(
        lambda m: m.training_info.add().algorithm.node.append(helper.make_node("Bogus", ["q"], ["r"]))
    ),
    "twenty thousand entries of metadata": lambda: matmul(
        lambda m: [m.metadata_props.add(key=f"k{number}", value="v") for number in range(20_000)]
    ),
    "a standard opset twice": lambda: matmul(lambda m: m.opset_import.append(helper.make_opsetid("", 13))),
    "a weight of 4 bits": lambda: quantized(TensorProto.INT4, 128),
    "a weight of float8": lambda: quantized(TensorProto.FLOAT8E4M3FN, 256),
    "a scalar for an input": lambda: plain(FLOAT, [], "Relu"),
    "a weight that is an input and an output": lambda: matmul(
        lambda m: (
            m.graph.input.append(value("w", FLOAT, [16, 16])),
            m.graph.output.append(value("w", FLOAT, [16, 16])),
        )
    ),
    "a value that is said to be another": lambda: matmul(
        lambda m: m.graph.value_info.append(value("y", TensorProto.INT64, [3]))
    ),
    "a negative dimension": lambda: plain(FLOAT, [-5, 16], "Relu"),
}

WRONG = {
    "a sparse weight beyond its end": (lambda: sparse([16, 16], [1.0, 2.0], [3, 700]), "invalid-graph"),
    "a sparse weight of four petabytes": (lambda: sparse([1 << 40, 1 << 10], [1.0], [3]), "sparse-too-large"),
    "a sparse weight of 64 gigabytes": (lambda: sparse([1 << 17, 1 << 17], [1.0], [3]), "sparse-too-large"),
    "a sparse weight of negative size": (lambda: sparse([-16, 16], [1.0], [3]), "invalid-graph"),
    "a sparse weight of three places": (lambda: sparse([16, 16], [1.0], [1, 2, 3], 3), "invalid-graph"),
    "a function that lacks its attribute": (function, "invalid-graph"),
    "a function twice": (lambda: twice(function(alpha=2.0)), "invalid-graph"),
    "metadata twice": (
        lambda: matmul(lambda m: [m.metadata_props.add(key="a", value=text) for text in "12"]),
        "invalid-graph",
    ),
    "data at a negative place": (lambda: external({"offset": "-8", "length": "1024"}), "invalid-graph"),
    "data at no number": (lambda: external({"offset": "abc"}), "invalid-graph"),
    "data of exabytes": (lambda: external({"offset": "0", "length": str(1 << 62)}), "invalid-graph"),
    "an opset of the far future": (
        lambda: matmul(lambda m: m.opset_import.append(helper.make_opsetid("ai.onnx.ml", 999))),
        "opset-too-new",
    ),
    "too few 4 bits": (lambda: quantized(TensorProto.INT4, 100), "invalid-graph"),
    "no element of a fixed size": (lambda: plain(FLOAT, [0, 16], "Relu"), "nothing-compared"),
    "text for an input": (lambda: plain(TensorProto.STRING, ["n"]), "feeds-not-found"),
    "complex numbers for an input": (lambda: plain(TensorProto.COMPLEX64, ["n"]), "session-failed"),
    "an input of exabytes": (lambda: plain(FLOAT, [1 << 60], "Relu"), "feeds-not-found"),
}


def saved(make: Callable[[], onnx.ModelProto]) -> Callable[[World], None]:
    def write(world: World) -> None:
        world.model.write_bytes(make().SerializeToString())
        (world.work / "d.bin").write_bytes(np.linspace(-1, 1, 600, dtype=np.float32).tobytes())

    return write


TABLE = [
    *(Case(name, saved(make), VERIFY, (0,)) for name, make in RIGHT.items()),
    *(Case(name, saved(make), VERIFY, reference=(reference,)) for name, (make, reference) in WRONG.items()),
]


@rows(TABLE)
def test_an_odd_feature(case: Case, world: World) -> None:
    hold(case, world)
