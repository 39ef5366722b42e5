"""What a rule is, and how it is applied to a whole graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import make_constant, read_constant


@dataclass(frozen=True, slots=True)
class Replacement:
    """What stands for a node.

    Attributes:
        nodes: new ones, in order.
        output: of the last of them, or any value there was: it stands for the node's first output.
    """

    nodes: tuple[ir.Node, ...]
    output: ir.Value


@dataclass(frozen=True, slots=True)
class Rule:
    """One rewrite.

    Attributes:
        name: what the report counts it as.
        operators: types of nodes it looks at, of the standard domain.
        summary: what it does, in a few words.
        rewrite: what stands for the node, or None where the rule does not fit.
    """

    name: str
    operators: tuple[str, ...]
    summary: str
    rewrite: Callable[[ir.Node], Replacement | None]

    def fits(self, node: ir.Node) -> bool:
        """Whether it would rewrite the node."""
        return node.domain in ("", "ai.onnx") and node.op_type in self.operators and self.rewrite(node) is not None

    def apply(self, model: ir.Model) -> int:
        """Rewrite every node of the main graph that it fits; how many."""
        graph, count = model.graph, 0
        for node in list(graph):
            if node.domain not in ("", "ai.onnx") or node.op_type not in self.operators:
                continue
            made = self.rewrite(node)
            if made is None:
                continue
            _register_constants(graph, made.nodes)
            if made.output.producer() in made.nodes:
                made.output.type, made.output.shape = node.outputs[0].type, node.outputs[0].shape
            ir.convenience.replace_nodes_and_values(graph, node, [node], made.nodes, [node.outputs[0]], [made.output])
            count += 1
        return count


class Writer:
    """Makes the nodes that stand for one, called after it."""

    def __init__(self, node: ir.Node) -> None:
        self._base = node.name or (node.outputs[0].name or node.op_type)
        self._dtype = node.outputs[0].dtype or ir.DataType.FLOAT
        self.nodes: list[ir.Node] = []

    def add(self, operator: str, *inputs: ir.Value | None, **attributes: Any) -> ir.Value:
        """One more node; its output."""
        name = f"{self._base}_{operator.lower()}{len(self.nodes)}"
        made = ir.node(operator, list(inputs), attributes, name=name)
        made.outputs[0].name = f"{name}_out"
        self.nodes.append(made)
        return made.outputs[0]

    def constant(self, what: str, values: NDArray[np.generic] | float) -> ir.Value:
        """An initializer; a plain number is of the type that the node makes."""
        array = np.asarray(values, self._dtype.numpy()) if isinstance(values, float) else values
        return make_constant(f"{self._base}_{what}", array)

    def replacement(self, output: ir.Value) -> Replacement:
        """All nodes so far."""
        return Replacement(tuple(self.nodes), output)


def fixed_shape(value: ir.Value | None) -> tuple[int, ...] | None:
    """The shape of a value where every size is known."""
    if value is None or value.shape is None or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(int(size) for size in value.shape)  # type: ignore[arg-type]


def constant_of(value: ir.Value | None) -> NDArray[np.generic] | None:
    """The array of an initializer or of a Constant node; HTP knows no weights that a run may replace."""
    found: NDArray[np.generic] | None = read_constant(value, even_if_input=True)
    return found


def inputs_of(node: ir.Node, count: int) -> Iterator[ir.Value | None]:
    """The first inputs of a node, None for those that are left out."""
    for place in range(count):
        yield node.inputs[place] if place < len(node.inputs) else None


def _register_constants(graph: ir.Graph, nodes: tuple[ir.Node, ...]) -> None:
    for node in nodes:
        for value in node.inputs:
            new = value is not None and value.producer() is None and value.const_value is not None
            if new and value is not None and value.name is not None and not value.is_initializer():
                taken, name = graph.initializers, value.name
                free = (f"{name}_{i}" for i in range(len(taken) + 1) if f"{name}_{i}" not in taken)
                value.name = next(free) if name in taken else name
                taken[value.name] = value
