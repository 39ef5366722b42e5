"""Whether a value may be smaller than it is, because whatever reads it is broadcast to its size anyway.

Before, where the scores are [batch, heads, rows, columns]::

    scores + Where(Expand(seen, [batch, 1, rows, columns]), 0, -inf)        seen is [batch, 1, 1, columns]

After::

    scores + Where(seen, 0, -inf)
"""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.graph.dimensions import BROADCAST, Sizes

_ELEMENT_BY_ELEMENT = frozenset(("Cast", "Identity", "Neg", "Not"))

_Axes = frozenset[int]
"""Axes counted from the back, as broadcasting does: the last one is -1."""


class NeedlessSize:
    """Gives up sizes in a graph, one value after the other.

    What is known of sizes stays true of every value but those that were given up, and of these nothing is believed.
    """

    def __init__(self, graph: ir.Graph, sizes: Sizes) -> None:
        self._graph = graph
        self._sizes = sizes
        self._smaller: set[ir.Value] = set()

    def give_up(self, value: ir.Value, other: ir.Value) -> bool:
        """Let every reader of a value read another one, which is the same but for axes of size 1.

        Args:
            value: of the graph.
            other: what is broadcast to it, shown to be so.

        Returns:
            Whether this was done: the sizes are known, and no reader needs them.
        """
        grown = self._grown(value, other)
        if grown is None or value.is_graph_output():
            return False
        smaller = self._readers_of(value, grown) if grown else {}
        if smaller is None:
            return False
        for one, axes in smaller.items():
            self._shrink(one, axes)
        ir.convenience.replace_all_uses_with(value, other)
        return True

    def _grown(self, value: ir.Value, other: ir.Value) -> _Axes | None:
        """The axes at which a value is larger; None where sizes cannot be compared."""
        axes = self._sizes.rank(value)
        if axes is None or axes != self._sizes.rank(other) or {value, other} & self._smaller:
            return None
        grown = [at - axes for at in range(axes) if self._sizes.of(value, at) != self._sizes.of(other, at)]
        return frozenset(grown) if all(self._sizes.of(other, at + axes) == 1 for at in grown) else None

    def _readers_of(self, value: ir.Value, grown: _Axes) -> dict[ir.Value, _Axes] | None:
        """Every value that becomes smaller with this one, and where; None where something needs its size.

        What becomes smaller restores no size, so whatever is found late makes earlier answers doubtful: they are
        looked at again until nothing is added.
        """
        smaller: dict[ir.Value, _Axes] = {value: grown}
        is_complete = False
        while not is_complete:
            is_complete = True
            for use in [use for one in smaller for use in one.uses()]:
                lost, result = self._lost(use.node, smaller), use.node.outputs[0]
                if lost is None or (lost and result.is_graph_output()):
                    return None
                if not lost <= smaller.get(result, frozenset()):
                    smaller[result] = lost
                    is_complete = False
        return smaller

    def _lost(self, node: ir.Node, smaller: dict[ir.Value, _Axes]) -> _Axes | None:
        """The axes at which what a node makes becomes smaller; None where it is not known."""
        lost = frozenset[int]().union(*(smaller.get(one, frozenset()) for one in node.inputs if one is not None))
        if node.domain not in ("", "ai.onnx") or node.graph is not self._graph:
            return None
        if node.op_type in _ELEMENT_BY_ELEMENT:
            return lost
        if node.op_type not in BROADCAST:
            return None
        whole = [one for one in node.inputs if one is not None and one not in smaller and one not in self._smaller]
        return frozenset(at for at in lost if not any(self._has(one, at, node.outputs[0]) for one in whole))

    def _has(self, operand: ir.Value, at: int, result: ir.Value) -> bool:
        """Whether an operand alone gives a result its size at an axis."""
        own, axes = self._sizes.rank(operand), self._sizes.rank(result)
        if own is None or axes is None or own + at < 0:
            return False
        size = self._sizes.of(operand, own + at)
        return size is not None and size == self._sizes.of(result, axes + at)

    def _shrink(self, value: ir.Value, axes: _Axes) -> None:
        self._smaller.add(value)
        if value.shape is not None:
            sizes = list(value.shape)
            for at in axes:
                sizes[at] = 1
            value.shape = ir.Shape(sizes)
