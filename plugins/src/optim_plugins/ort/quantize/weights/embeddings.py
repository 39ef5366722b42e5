"""Finds the tables of a graph that are looked up row by row: ``Gather(table, indices)`` along the first axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

_LEAST_COLUMNS = 16
"""Of a block; narrower rows would be mostly padding."""


@dataclass(frozen=True)
class Embedding:
    """``output = table[indices]``.

    Attributes:
        node: the Gather.
        table: the initializer, float32 [N, K].
        indices: integers of any shape, int32 or int64.
    """

    node: ir.Node
    table: ir.Value
    indices: ir.Value

    @property
    def name(self) -> str:
        """What ``keep`` calls it: the node's name, or that of its output where it has none."""
        return self.node.name or self.node.outputs[0].name or ""


def find_embeddings(graph: ir.Model, least_elements: int) -> Iterator[Embedding]:
    """Look-ups in a constant float32 table of at least so many elements, in the graph's order."""
    for node in graph.graph.all_nodes():
        if node.op_type != "Gather" or node.domain not in ("", "ai.onnx") or len(node.inputs) != 2:
            continue
        table, indices = node.inputs
        axis = node.attributes.get("axis")
        if table is None or indices is None or not table.is_initializer() or (axis is not None and axis.as_int() != 0):
            continue
        tensor = table.const_value
        if tensor is None or tensor.dtype != ir.DataType.FLOAT or tensor.size < least_elements:
            continue
        shape = tensor.shape.numpy()
        if len(shape) == 2 and shape[1] >= _LEAST_COLUMNS:
            yield Embedding(node, table, indices)
