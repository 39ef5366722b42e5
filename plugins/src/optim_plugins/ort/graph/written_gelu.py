"""Gelu that exporters wrote out, which onnxruntime makes one operator of as long as nothing tears it apart.

y = x * (1 + Erf(x / sqrt(2))) * 0.5            the three factors in any order
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import onnx_ir as ir

from optim.onnx import only_reader
from optim_plugins.ort.graph.known_values import producer, scalar

_SAME = 1e-4


@dataclass(frozen=True)
class WrittenGelu:
    """Where it begins and ends.

    Attributes:
        source: x.
        last: the node that gives y.
        nodes: all of them.
    """

    source: ir.Value
    last: ir.Node
    nodes: frozenset[ir.Node]


def written_gelus(graph: ir.Model) -> Iterator[WrittenGelu]:
    """All of a graph, in its order, in branches and bodies too."""
    for node in graph.graph.all_nodes():
        found = _around(node) if node.op_type == "Erf" and node.domain in ("", "ai.onnx") else None
        if found is not None:
            yield found


def _around(erf: ir.Node) -> WrittenGelu | None:
    ahead = producer(erf.inputs[0], "Div", "Mul")
    if ahead is None or only_reader(ahead.outputs[0]) is not erf:
        return None
    source = _scaled(ahead, 1 / math.sqrt(2))
    added = only_reader(erf.outputs[0])
    if source is None or added is None or added.op_type != "Add" or _constant_beside(added, erf.outputs[0]) != 1:
        return None
    product = halved_product(added.outputs[0], source)
    if product is None:
        return None
    return WrittenGelu(source, product.last, frozenset((ahead, erf, added, *product.nodes)))


def halved_product(value: ir.Value, source: ir.Value | None) -> WrittenGelu | None:
    """``value * source * 0.5``, the factors in any order.

    Args:
        value: which only these factors read.
        source: None finds it.
    """
    nodes: list[ir.Node] = []
    halved = multiplied = False
    while not (halved and multiplied):
        product = only_reader(value)
        if product is None or product.op_type != "Mul" or product.domain not in ("", "ai.onnx"):
            return None
        other = next((one for one in product.inputs if one is not value), None)
        half = producer(other, "Mul", "Div")
        of_half = _scaled(half, 0.5) if half is not None and not halved and not multiplied else None
        if other is None:
            return None
        if scalar(other) == 0.5 and not halved:
            halved = True
        elif half is not None and of_half is not None and source in (None, of_half):
            source, halved, multiplied = of_half, True, True
            nodes.append(half)
        elif source in (None, other) and not multiplied:
            source, multiplied = other, True
        else:
            return None
        nodes.append(product)
        value = product.outputs[0]
    assert source is not None
    return WrittenGelu(source, nodes[-1], frozenset(nodes))


def _scaled(node: ir.Node, factor: float) -> ir.Value | None:
    """What a Mul or Div multiplies by a factor."""
    first, second = node.inputs
    number = scalar(second)
    if number is not None and number != 0:
        found = number if node.op_type == "Mul" else 1 / number
        return first if abs(found - factor) < _SAME else None
    number = scalar(first) if node.op_type == "Mul" else None
    return second if number is not None and abs(number - factor) < _SAME else None


def _constant_beside(node: ir.Node, value: ir.Value) -> float | None:
    return next((scalar(one) for one in node.inputs if one is not value), None)
