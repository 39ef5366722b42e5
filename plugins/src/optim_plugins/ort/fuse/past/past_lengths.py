"""Lengths of a past that lies in a buffer: they come from the mask, for the buffer is longer than what it holds.

Before::

    past = Shape(past_key)[2]                         present = Shape(present_key)[2]

After::

    present = Shape(attention_mask)[1]                past = present - Shape(input_ids)[1]

The operator wants them as ``seqlens_k`` (the last place that each row fills) and ``total_sequence_length``, of int32.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from optim_plugins.ort.fuse.attention_pattern import Attention
from optim_plugins.ort.fuse.past.past_pattern import Joined, PastFound
from optim_plugins.ort.graph.known_values import producer
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

_FILLED = "_filled"


class PastLengths:
    """Writes lengths at the beginning of a graph.

    Attributes:
        last: for each row the last place that is filled after the step, int32 [batch].
        total: tokens of the past and new ones, int32 of no axis.
    """

    def __init__(self, graph: ir.Model, found: PastFound, writer: NodeWriter) -> None:
        self._graph = graph
        self._found = found
        self._writer = writer
        writer.before = graph.graph[0]
        self._batch, self._total = writer.size(found.mask, 0), writer.size(found.mask, 1)
        whole = self._cast(self._total)
        self.total = writer.add("Squeeze", [whole])
        last = self._cast(writer.add("Sub", [self._total, writer.integers([1])]))
        self.last = writer.add("Expand", [last, self._batch])

    def replace(self, presents: Mapping[Joined, ir.Value]) -> str | None:
        """Let every node that reads the length of a past or a present read these; else why one cannot.

        Args:
            presents: what the operators return in place of what was joined.
        """
        self._writer.before = self.last.producer()
        past = self._writer.add("Sub", [self._total, self._writer.size(self._found.ids, 1)])
        for block in self._found.blocks:
            for joined in (block.key, block.value):
                reason = self._replace(joined.past, past, block.attention)
                reason = reason or self._replace(presents[joined], self._total, block.attention)
                if reason:
                    return reason
        return None

    def rename(self) -> None:
        """Give dimensions inside the graph that are called as the past's another name: they are no size of a buffer."""
        names = {_name(joined.past) for block in self._found.blocks for joined in (block.key, block.value)}
        for node in self._graph.graph:
            for value in node.outputs:
                if value.is_graph_output():  # its shape is the caller's
                    continue
                for axis, size in enumerate(value.shape or ()):
                    if isinstance(size, ir.SymbolicDim) and size.value in names and size.value is not None:
                        assert value.shape is not None
                        value.shape[axis] = f"{size.value}{_FILLED}"

    def _replace(self, value: ir.Value, length: ir.Value, attention: Attention) -> str | None:
        for use in list(value.uses()):
            node = use.node
            if node.domain == "com.microsoft" and node.op_type == "GroupQueryAttention":
                continue
            if producer(node.outputs[0], "Shape") is None:
                return f"{node.name or node.outputs[0].name} ({node.op_type}) reads '{value.name}' beside its attention"
            take_over(node.outputs[0], self._shape(node, length, attention))
        return None

    def _shape(self, node: ir.Node, length: ir.Value, attention: Attention) -> ir.Value:
        """What a Shape of a past gives where its third axis is ``length``."""
        writer = self._writer
        heads, size = writer.integers([attention.key_heads]), writer.integers([attention.head_size])
        sizes = [self._batch, heads, length, size]
        wanted = sizes[node.attributes.get_int("start", 0) : node.attributes.get_int("end", len(sizes))]
        return wanted[0] if len(wanted) == 1 else writer.add("Concat", wanted, axis=0)

    def _cast(self, value: ir.Value) -> ir.Value:
        narrow = self._writer.add("Cast", [value], to=int(ir.DataType.INT32))
        narrow.type = ir.TensorType(ir.DataType.INT32)
        return narrow


def _name(value: ir.Value) -> str | None:
    size = value.shape[2] if value.shape is not None else None
    return size.value if isinstance(size, ir.SymbolicDim) else None
