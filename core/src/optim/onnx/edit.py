"""For passes that rewrite onnx-ir graphs: constants, single readers, unique names, and denormal numbers in weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray


class UniqueNames:
    """Makes names that no value of a model has.

    It knows the values that the model has at first, and the names that it made since.
    """

    def __init__(self, model: ir.Model) -> None:
        self._taken = {value.name for part in model.graphs() for value in (*part.inputs, *part.initializers.values())}
        self._taken |= {value.name for node in model.graph.all_nodes() for value in node.outputs}

    def take(self, wanted: str) -> str:
        """Returns the wanted name, with a number behind it if the name is taken, and reserves it."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name


def make_constant(name: str, content: NDArray[Any] | np.generic | ir.TensorProtocol) -> ir.Value:
    """Makes a value from an array or a tensor. The value belongs to no graph yet, and gives the tensor its name."""
    tensor = content if isinstance(content, ir.TensorProtocol) else ir.tensor(content)
    tensor.name = name
    return ir.Value(
        name=name, shape=ir.Shape(tensor.shape.numpy()), type=ir.TensorType(tensor.dtype), const_value=tensor
    )


def add_constant(graph: ir.Graph, name: str, content: NDArray[Any] | np.generic | ir.TensorProtocol) -> ir.Value:
    """Adds an initializer to a graph.

    Args:
        graph: the graph.
        name: a name that is free in the graph.
        content: the values, of any shape and type of ONNX.
    """
    value = make_constant(name, content)
    graph.register_initializer(value)
    return value


def read_constant(value: ir.Value | None, *, at_most: int | None = None, even_if_input: bool = False) -> Any:
    """Reads the array of an initializer or a Constant node.

    Args:
        value: a value of a graph; None: an input that a node leaves out.
        at_most: largest number of elements to read.
        even_if_input: also read an initializer that is an input, although a run may replace it.

    Returns:
        The array; None if the value is not constant, or is larger.
    """
    if value is None or (value.is_graph_input() and not even_if_input):
        return None
    tensor = ir.convenience.get_const_tensor(value)
    if tensor is None or (at_most is not None and tensor.size > at_most):
        return None
    return tensor.numpy()


def only_reader(value: ir.Value, *operators: str) -> ir.Node | None:
    """Returns the node that alone reads a value, in the value's own graph.

    Args:
        value: a value of a graph. An output of the graph has a further reader.
        operators: allowed operators of the node; none: all.
    """
    uses = list(value.uses())
    if len(uses) != 1 or value.is_graph_output() or uses[0].node.graph is not value.graph:
        return None
    reader = uses[0].node
    return reader if not operators or reader.op_type in operators else None


def constant_values(graph: ir.Model) -> set[ir.Value]:
    """Returns the values of the main graph that do not depend on its inputs."""
    bodies = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
    fixed = set(graph.graph.initializers.values())
    for node in graph.graph:
        has_body = any(attribute.type in bodies for attribute in node.attributes.values())
        if not has_body and not node.op_type.startswith("Random") and all(v is None or v in fixed for v in node.inputs):
            fixed.update(node.outputs)
    return fixed


_BLOCK = 1 << 22
"""Elements looked at together: the mask of a weight of gigabytes is never held as a whole."""


def is_denormal(array: NDArray[np.float32]) -> NDArray[np.bool_]:
    """A mask of the numbers below the smallest normal one, zero excepted. Processors compute with them far slower.

    The mask follows from the bits: in a process that flushes denormals, a comparison takes them for zeros.
    """
    magnitude = np.ascontiguousarray(array).view(np.uint32) & np.uint32(0x7FFFFFFF)
    return (magnitude - np.uint32(1)) < np.uint32(0x007FFFFF)


def denormal_weights(graph: ir.Model) -> Iterator[tuple[ir.Value, int]]:
    """The float32 weights of a graph with denormal numbers, and how many each has. Reads all float32 weights."""
    for part in graph.graphs():
        for value in part.initializers.values():
            weight = value.const_value
            if weight is None or weight.dtype != ir.DataType.FLOAT:
                continue
            flat = weight.numpy().reshape(-1)
            blocks = (flat[start : start + _BLOCK] for start in range(0, flat.size, _BLOCK))
            if count := sum(int(is_denormal(block).sum()) for block in blocks):
                yield value, count
