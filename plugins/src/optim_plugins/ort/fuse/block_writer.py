"""Puts an attention operator in the place of a block: rows go in, and who read the block's heads reads its rows."""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.fuse.attention_masks import Masks
from optim_plugins.ort.fuse.attention_pattern import Attention
from optim_plugins.ort.graph.dimensions import Sizes
from optim_plugins.ort.graph.known_values import permutation, producer
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

SWAP = (0, 2, 1, 3)
"""Heads before the sequence, or behind it."""


class BlockWriter:
    """What every attention operator needs around it.

    Attributes:
        sizes: of the graph.
        nodes: writes nodes.
        masks: of the graph, as the operators take them.
    """

    def __init__(self, graph: ir.Model, sizes: Sizes) -> None:
        self.sizes = sizes
        self.nodes = NodeWriter(graph, "attention")
        self.masks = Masks(self.nodes, sizes)

    def flat(self, value: ir.Value) -> ir.Value | None:
        """[batch, sequence, hidden] of heads split off it: Transpose(Reshape(flat, [b, s, h, d]), [0, 2, 1, 3])."""
        transpose = producer(value, "Transpose")
        if transpose is None or permutation(transpose) != list(SWAP):
            return None
        split = producer(transpose.inputs[0], "Reshape")
        flat = split.inputs[0] if split is not None else None
        if split is None or flat is None or self.sizes.rank(flat) != 3:
            return None
        kept = all(self.sizes.of(split.outputs[0], axis) == self.sizes.of(flat, axis) for axis in (0, 1))
        return flat if kept else None

    def rows(self, heads: ir.Value, hidden: int) -> ir.Value:
        """[batch, sequence, hidden] of any heads, [batch, heads, sequence, size]."""
        flat = self.flat(heads)
        return flat if flat is not None else self.nodes.reshape(self.nodes.transpose(heads, SWAP), [0, 0, hidden])

    def hand_on(self, block: Attention, heads: ir.Value, flat: ir.Value | None) -> None:
        """Let who read the block read its replacement, without the Transpose and Reshape that are undone at once.

        Args:
            block: what is replaced.
            heads: [batch, sequence, heads, head size].
            flat: the same as [batch, sequence, hidden], where there is such a value.
        """
        for reader in self._readers(block.output):
            if permutation(reader) == list(SWAP):
                self._hand_on_rows(reader, block, heads, flat)
        take_over(block.output, self.nodes.transpose(heads, SWAP))

    def _hand_on_rows(self, transpose: ir.Node, block: Attention, heads: ir.Value, flat: ir.Value | None) -> None:
        rows = transpose.outputs[0]
        hidden = block.heads * block.head_size
        whole = [self.sizes.of(block.query, 0), self.sizes.of(block.query, 2), hidden]
        for use in list(rows.uses()):
            node = use.node
            target = self.sizes.target(node) if producer(node.outputs[0], "Reshape") is not None else None
            if target is None:
                continue
            if len(target) == 3 and self.sizes.differing(target, whole) <= 1:
                merged = self.nodes.reshape(heads, [0, 0, hidden]) if flat is None else flat
                take_over(node.outputs[0], merged)
            elif flat is not None and 0 not in target[2:]:
                node.replace_input_with(0, flat)
        take_over(rows, heads)

    def _readers(self, value: ir.Value) -> list[ir.Node]:
        """Readers of a value, also behind a Reshape that changes nothing."""
        found: list[ir.Node] = []
        for use in value.uses():
            same = use.node.op_type == "Reshape" and self.sizes.keeps_shape(use.node)
            found += self._readers(use.node.outputs[0]) if same else [use.node]
        return found
