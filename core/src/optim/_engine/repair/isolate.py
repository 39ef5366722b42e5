"""Graphs for measuring nodes one by one, without running the model once for each of them.

Before::

    x -> A -> a -> B -> b -> C -> y

Captured, to know what every node is given and gives::

    x -> A -> a -> B -> b -> C -> y          outputs a, b, y

Isolated: every node on its own, given what it was given before; a pass applied to this does to each node what it does
to it in the model, and one run gives the error of each::

    x -> A -> a      a' -> B -> b      b' -> C -> y

Injected: the model as it was, with an error added behind each node. Fed zeros it is the model itself; fed the error of
one node it does what the pass would do to this node alone::

    x -> A -> Add(ea) -> B -> Add(eb) -> C -> Add(ey) -> y

What a node is given that depends on weights alone (a transposed weight, a constant) stays attached to it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim.arrays import Array
from optim.onnx.edit import constant_values


@dataclass(frozen=True, slots=True)
class NodePlace:
    """A node by the names of its values, which outlive the graph object.

    Attributes:
        name: what ``keep`` calls it.
        operator: its type, with the domain where that is not the standard one.
        given: names of inputs that depend on the feeds.
        made: names of its outputs.
        weight: shape of the largest weight that it reads; empty without one.
    """

    name: str
    operator: str
    given: tuple[str, ...]
    made: tuple[str, ...]
    weight: tuple[int, ...] = ()

    @property
    def kind(self) -> str:
        """Nodes of one operator whose weights have one shape are of one kind, e.g. ``MatMul 384x1536``."""
        return f"{self.operator} {'x'.join(map(str, self.weight))}"

    def work(self, output: Array) -> float:
        """How much it computes, about, in multiplications: each element of the output times what a weight adds up."""
        if len(self.weight) < 2:
            return float(output.size)
        columns = output.shape[1] if self.operator.startswith("Conv") and output.ndim > 1 else output.shape[-1]
        multiplied: float = max(1.0, math.prod(self.weight) / max(1, columns))
        return multiplied * output.size


def find_places(graph: ir.Model, names: Collection[str]) -> list[NodePlace]:
    """The nodes of the main graph that have these names, in its order.

    A node is called by its name, or by that of its first output; one inside a branch or a loop body has no place.
    """
    wanted = set(names)
    fixed = constant_values(graph)
    found: list[NodePlace] = []
    for node in graph.graph:
        own = [name for name in (node.name, node.outputs[0].name if node.outputs else "") if name in wanted]
        if own:
            wanted.discard(own[0] or "")
            found.append(_place(node, own[0] or "", fixed))
    return found


def captured(graph: ir.Model, names: Collection[str]) -> None:
    """Make these values outputs of the graph, beside those that it has."""
    there = {value.name for value in graph.graph.outputs}
    for node in graph.graph:
        graph.graph.outputs.extend(v for v in node.outputs if v.name in names and v.name not in there)


def isolated(graph: ir.Model, places: Sequence[NodePlace], arrays: Mapping[str, Array]) -> None:
    """Cut a graph into its nodes, in place; a value ``v`` that a node is given becomes the input ``given_name(v)``."""
    made = {name for place in places for name in place.made if name in arrays}
    fixed = constant_values(graph)
    kept = [node for node in graph.graph if any(value.name in made for value in node.outputs)]
    inputs: dict[str, ir.Value] = {}
    for node in kept:
        for place, value in enumerate(node.inputs):
            if value is None or value in fixed or value.name is None:
                continue
            if value.name not in inputs:
                inputs[value.name] = _like(given_name(value.name), arrays[value.name], value.shape)
            node.replace_input_with(place, inputs[value.name])
    outputs = [value for node in kept for value in node.outputs if value.name in made]
    for value in outputs:
        value.type = ir.TensorType(ir.DataType.from_numpy(arrays[value.name or ""].dtype))
    graph.graph.outputs.clear()
    graph.graph.outputs.extend(outputs)
    weights = [value for value in graph.graph.inputs if value.is_initializer()]
    graph.graph.inputs.clear()
    graph.graph.inputs.extend([*inputs.values(), *weights])
    RemoveUnusedNodesPass()(graph)


def injected(graph: ir.Model, arrays: Mapping[str, Array]) -> None:
    """Add an input :func:`error_name` ``(v)`` to each of these values, wherever it is read or given out."""
    for node in list(graph.graph):
        for value in node.outputs:
            name = value.name
            if name is None or name not in arrays:
                continue
            error = _like(error_name(name), arrays[name], value.shape)
            graph.graph.inputs.append(error)
            sum_node = ir.node("Add", [value, error], name=f"{error.name}_added")
            total = sum_node.outputs[0]
            total.type, total.shape = error.type, value.shape
            graph.graph.insert_after(node, sum_node)
            ir.convenience.replace_all_uses_with(value, total, replace_graph_outputs=True)
            sum_node.replace_input_with(0, value)
            value.name, total.name = f"{name}_before_error", name


def given_name(value: str) -> str:
    """The input that stands for a value in an isolated graph."""
    return f"optim_given_{value}"


def error_name(value: str) -> str:
    """The input that is added to a value in an injected graph."""
    return f"optim_error_{value}"


def _place(node: ir.Node, name: str, fixed: set[ir.Value]) -> NodePlace:
    given = tuple(dict.fromkeys(v.name for v in node.inputs if v is not None and v not in fixed and v.name))
    weights = [shape for value in node.inputs if value is not None and (shape := _weight_shape(value))]
    largest = max(weights, key=lambda shape: math.prod(shape), default=())
    operator = node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}:{node.op_type}"
    made = tuple(value.name for value in node.outputs if value.name)
    return NodePlace(name, operator, given, made, largest)


def _weight_shape(value: ir.Value) -> tuple[int, ...] | None:
    """Returns the shape of an initializer, also of one that is only transposed or cast on the way."""
    producer = value.producer()
    if producer is not None and producer.op_type in ("Transpose", "Cast", "DequantizeLinear") and producer.inputs[0]:
        inner = _weight_shape(producer.inputs[0])
        return inner[::-1] if inner and producer.op_type == "Transpose" else inner
    tensor = value.const_value if value.is_initializer() else None
    return tuple(int(size) for size in tensor.shape.numpy()) if tensor is not None else None


def _like(name: str, array: Array, shape: ir.Shape | None) -> ir.Value:
    """An input of this type; of the known shape where it has the rank of the array."""
    fits = shape is not None and len(shape) == array.ndim
    sizes = shape if fits else ir.Shape([None] * array.ndim)
    return ir.Value(name=name, shape=sizes, type=ir.TensorType(ir.DataType.from_numpy(array.dtype)))
