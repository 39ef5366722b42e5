"""Normalizations whose epsilon ONNX Runtime may misread where it is a number of 16 bits.

Such as RMS normalization::

    y = x / Sqrt(ReduceMean(x^2) + e)

ONNX Runtime makes its own operator of that when it opens a model. On the CPU, where it puts casts around nodes of 16
bits, it takes 1e-05 for the epsilon of such nodes, whatever that is, as soon as two of them follow each other (1.31.1:
a Llama with an epsilon of 1e-06 drifted by 0.013 in place of 0.0015). They stay in float32, between casts, as
transformers compute them; every runtime reads the epsilon of that form. 1.32 reads that of 16 bits too; the result may
run with an earlier one.
"""

from __future__ import annotations

import math

import onnx_ir as ir

from optim_plugins.ort.graph.known_values import producer, scalar

_TAKEN = 1e-5
"""What ONNX Runtime takes for an epsilon that it cannot read."""

_AS_GOOD = 0.01
"""Within a per cent of it nothing is misread: 1e-05 itself is 1.0014e-05 in float16."""


def misread_epsilons(graph: ir.Model) -> set[ir.Node]:
    """The nodes of every such normalization, from the square to the quotient."""
    found: set[ir.Node] = set()
    for node in graph.graph.all_nodes():
        root = producer(node.inputs[1], "Sqrt") if node.op_type == "Div" else None
        total = producer(root.inputs[0], "Add") if root is not None else None
        if root is None or total is None:
            continue
        for side, other in (total.inputs, total.inputs[::-1]):
            mean, epsilon = producer(side, "ReduceMean"), scalar(other)
            square = producer(mean.inputs[0], "Pow", "Mul") if mean is not None else None
            if mean is None or square is None or epsilon is None:
                continue
            if not math.isclose(epsilon, _TAKEN, rel_tol=_AS_GOOD):
                found |= {square, mean, total, root, node}
    return found
