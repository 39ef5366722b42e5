"""A small model, written down node by node, with the data that its inputs take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Sample = dict[str, np.ndarray]
Draw = Callable[[np.random.Generator, int], Any]
"""The value of an input, given random numbers and the number of the sample."""

_VERSIONS = {"": 21, "com.microsoft": 1, "ai.onnx.ml": 3}
IR_VERSION = 10


class Sketch:
    """One model of a pair.

    Args:
        dtype: of floating-point numbers, unless another is named.

    Attributes:
        count: of samples; None: as many as the size of the pair says.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = np.dtype(dtype)
        self.count: int | None = None
        self._nodes: list[onnx.NodeProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._draws: dict[str, tuple[np.dtype, Draw]] = {}
        self._count = 0

    def feed(self, name: str, *shape: int | str, dtype: str = "", draw: Draw | None = None) -> str:
        """An input; drawn from a normal distribution if no other is given."""
        kind = np.dtype(dtype or self.dtype)
        self._inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(kind), shape))
        self._draws[name] = kind, draw or (lambda rng, _: rng.standard_normal(shape))
        return name

    def const(self, value: Any, dtype: str = "") -> str:
        """A constant; Python floats and float arrays get the model's number format."""
        array = np.asarray(value)
        if dtype or array.dtype.kind == "f":
            array = array.astype(dtype or self.dtype)
        self._count += 1
        name = f"c{self._count}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name))
        return name

    def ints(self, *values: int) -> str:
        """A constant vector of int64."""
        return self.const(np.array(values, np.int64))

    def op(self, kind: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """A node with one output; inputs that are no names become constants."""
        return self.ops(kind, 1, *inputs, domain=domain, **attributes)[0]

    def ops(self, kind: str, outputs: int, *inputs: Any, domain: str = "", **attributes: Any) -> list[str]:
        """A node with several outputs."""
        names = [one if isinstance(one, str) else self.const(one) for one in inputs]
        found = []
        for _ in range(outputs):
            self._count += 1
            found.append(f"v{self._count}")
        self._nodes.append(helper.make_node(kind, names, found, domain=domain, **attributes))
        return found

    def give(self, name: str, value: str, dtype: str = "", shape: Any = None) -> None:
        """An output; floating-point unless a number format is named."""
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype or self.dtype))
        self.give_as(name, value, helper.make_tensor_type_proto(kind, shape))

    def give_as(self, name: str, value: str, kind: onnx.TypeProto) -> None:
        """An output of any type, e.g. a sequence."""
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self._outputs.append(helper.make_value_info(name, kind))

    # What many models need.

    def linear(self, x: str, weights: Any, bias: Any = None) -> str:
        """Returns ``x @ weights + bias``."""
        product = self.op("MatMul", x, weights)
        return product if bias is None else self.op("Add", product, bias)

    def cast(self, x: str, dtype: str) -> str:
        """The same in another number format."""
        return self.op("Cast", x, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def reshape(self, x: str, *shape: int) -> str:
        """The same numbers in another shape."""
        return self.op("Reshape", x, self.ints(*shape))

    def part(self, x: str, start: int, end: int, axis: int) -> str:
        """A slice along one axis."""
        return self.op("Slice", x, self.ints(start), self.ints(end), self.ints(axis))

    def join(self, *parts: str, axis: int) -> str:
        """Parts, one behind the other."""
        return self.op("Concat", *parts, axis=axis)

    def roll(self, x: str, size: int, axis: int, by: int = 1) -> str:
        """Everything ``by`` places later along an axis; the end comes to the front."""
        return self.join(self.part(x, size - by, size, axis), self.part(x, 0, size - by, axis), axis=axis)

    def model(self) -> onnx.ModelProto:
        """The model, checked."""
        graph = helper.make_graph(self._nodes, "sketch", self._inputs, self._outputs, self._constants)
        used = {"", *(node.domain for node in self._nodes)}
        versions = [helper.make_opsetid(domain, version) for domain, version in _VERSIONS.items() if domain in used]
        model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=versions)
        inferred = {one.name: one.type for one in onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output}
        for output in model.graph.output:
            output.type.CopyFrom(inferred[output.name])
        onnx.checker.check_model(model)
        return model

    def samples(self, count: int, seed: int) -> list[Sample]:
        """Data for all inputs."""
        rng = np.random.default_rng([seed, 3])
        return [
            {name: np.asarray(draw(rng, number)).astype(kind) for name, (kind, draw) in self._draws.items()}
            for number in range(self.count or count)
        ]
