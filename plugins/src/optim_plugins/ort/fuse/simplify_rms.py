"""RMS normalization as ONNX Runtime recognizes it when it opens a model.

Before, as exporters write ``x * rsqrt(mean(x^2) + e) * w``::

    y = (x * Reciprocal(Sqrt(ReduceMean(x^2) + e))) * w             or with Div(1, Sqrt(...))

After, one node less, and a form that the runtime turns into its SimplifiedLayerNormalization::

    y = (x / Sqrt(ReduceMean(x^2) + e)) * w

The runtime's operator is in the standard domain, where no checker knows it: so it is not written here.
"""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer, scalar, small_constant
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over

_KNOWN: dict[str, tuple[str, ...]] = {}
"""Mul has no attribute."""


def simplify_rms(graph: ir.Model) -> int:
    """Rewrite every such normalization, in place; how many."""
    writer = NodeWriter(graph, "rms")
    count = 0
    for node in list(graph.graph):
        if node.op_type != "Mul" or node.domain not in ("", "ai.onnx"):
            continue
        for source, factor in (node.inputs, node.inputs[::-1]):
            root = _root_of_mean_square(factor, source)
            if root is not None and are_known([node], _KNOWN):
                writer.before = node
                quotient = writer.add("Div", [source, root], name=f"{node.name or node.outputs[0].name}_divided")
                quotient.producer().metadata_props.update(node.metadata_props)  # type: ignore[union-attr]
                take_over(node.outputs[0], quotient)
                count += 1
                break
    return count


def _root_of_mean_square(factor: ir.Value | None, source: ir.Value | None) -> ir.Value | None:
    """``r`` where the factor is 1 / r and r is Sqrt(ReduceMean(source^2) + e)."""
    inverse = producer(factor, "Reciprocal", "Div")
    root = inverse.inputs[-1] if inverse is not None else None
    if inverse is None or (inverse.op_type == "Div" and not _is_one(inverse.inputs[0], root)):
        return None
    sqrt = producer(root, "Sqrt")
    total = producer(sqrt.inputs[0], "Add") if sqrt is not None else None
    sides = [producer(side, "ReduceMean") for side in total.inputs] if total is not None else []
    mean = next((side for side in sides if side is not None), None)
    square = producer(mean.inputs[0], "Pow", "Mul") if mean is not None else None
    if square is None or square.inputs[0] is not source:
        return None
    squared = scalar(square.inputs[1]) == 2 if square.op_type == "Pow" else square.inputs[1] is source
    return root if squared else None


def _is_one(value: ir.Value | None, root: ir.Value | None) -> bool:
    """Whether a constant is 1, and has no axes that it gives to what it is divided by."""
    array = small_constant(value)
    axes = len(root.shape) if root is not None and root.shape is not None else 0
    return array is not None and array.ndim <= axes and scalar(value) == 1
