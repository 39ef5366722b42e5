"""Writes nodes into a graph before a given one, and each small constant once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from optim.onnx import UniqueNames, add_constant

_RESULTS = {"Shape": ir.DataType.INT64, "Greater": ir.DataType.BOOL}
"""Types of results that are not those of an operand; runtimes' own operators have no inference that would tell."""


class NodeWriter:
    """Set ``before``, then add nodes.

    Attributes:
        before: new nodes come before this one; whatever they read must come before it too.
        opset: of the standard domain.
    """

    def __init__(self, graph: ir.Model, prefix: str) -> None:
        self.before: ir.Node | None = None
        self.opset = graph.graph.opset_imports.get("", 1)
        self._graph = graph.graph
        self._prefix = prefix
        self._names = UniqueNames(graph)
        self._constants: dict[tuple[str, tuple[int, ...], tuple[Any, ...]], ir.Value] = {}

    def add(
        self,
        operator: str,
        inputs: Sequence[ir.Value | None],
        *,
        domain: str = "",
        name: str | None = None,
        **attributes: Any,
    ) -> ir.Value:
        """Add a node with one output, which is returned; its type is that of the first input, with few exceptions."""
        node = ir.node(operator, inputs, attributes, domain=domain, name=name)
        typed_like = inputs[-1] if operator == "Where" else inputs[0]
        fixed = _RESULTS.get(operator)
        node.outputs[0].type = ir.TensorType(fixed) if fixed is not None else typed_like.type if typed_like else None
        assert self.before is not None
        self._graph.insert_before(self.before, node)
        return node.outputs[0]

    def reshape(self, value: ir.Value, sizes: Sequence[int]) -> ir.Value:
        """Reshape to constant sizes; 0 keeps one and -1 is what is left."""
        return self.add("Reshape", [value, self.integers(sizes)])

    def transpose(self, value: ir.Value, order: Sequence[int]) -> ir.Value:
        """Reorder axes."""
        return self.add("Transpose", [value], perm=order)

    def size(self, value: ir.Value, axis: int) -> ir.Value:
        """The size of an axis, as a vector of one."""
        return self.add("Gather", [self.add("Shape", [value]), self.integers([axis])], axis=0)

    def integers(self, numbers: Sequence[int]) -> ir.Value:
        """A constant vector of int64."""
        return self.constant(np.array(numbers, np.int64))

    def number(self, number: float | np.float32) -> ir.Value:
        """A constant float32 scalar."""
        return self.constant(np.float32(number))

    def constant(self, array: np.ndarray[Any, Any] | np.generic) -> ir.Value:
        """A small constant, as an initializer."""
        content = np.asarray(array)
        key = (content.dtype.name, content.shape, tuple(content.reshape(-1).tolist()))
        if key not in self._constants:
            name = self._names.take(f"{self._prefix}_constant_{len(self._constants)}")
            self._constants[key] = add_constant(self._graph, name, content)
        return self._constants[key]


def take_over(old: ir.Value, new: ir.Value) -> None:
    """Let every reader of ``old`` read ``new``, which has the same type and shape; a graph output keeps its name."""
    new.type, new.shape = old.type, old.shape
    if old.is_graph_output():
        old.name, new.name = f"{old.name}_before", old.name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
