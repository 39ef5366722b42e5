"""Readers inside a graph that reduce a tensor to a number for each of its channels, whatever the opset.

v -> Reshape([-1, K]) -> reduced over the rows             channels are the last axis
v -> Reshape([0, 0, -1]) -> reduced over first and last    channels are the second axis
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import onnx_ir as ir

from optim.onnx import add_constant

_AXES_ARE_INPUT = 18
"""Of ReduceMean and ReduceMax, from this opset on."""


def values_named(graph: ir.Model, names: Iterable[str]) -> list[tuple[str, ir.Value]]:
    """Those of these names that are inputs or values of the main graph."""
    values = {value.name: value for value in graph.graph.inputs}
    values |= {value.name: value for node in graph.graph for value in node.outputs}
    return [(name, values[name]) for name in names if name in values]


def add_channel_reader(graph: ir.Model, value: ir.Value, operator: str, last: int | None) -> str:
    """Read a tensor of the main graph.

    Args:
        graph: to change.
        value: float32.
        operator: ``ReduceMean``, or ``ReduceMax``, which is of the magnitudes.
        last: how many channels its last axis has; None where channels are the second axis.

    Returns:
        The name of the new value, float32 [K].
    """
    prefix = f"{value.name}_optim_{operator}"
    sizes, axes = ([0, 0, -1], [0, 2]) if last is None else ([-1, last], [0])
    nodes = [ir.node("Reshape", [value, _integers(graph, f"{prefix}_sizes", sizes)])]
    if operator == "ReduceMax":
        nodes.append(ir.node("Abs", [nodes[-1].outputs[0]]))
    source = nodes[-1].outputs[0]
    if graph.graph.opset_imports.get("", 1) < _AXES_ARE_INPUT:
        nodes.append(ir.node(operator, [source], {"axes": axes, "keepdims": 0}))
    else:
        nodes.append(ir.node(operator, [source, _integers(graph, f"{prefix}_axes", axes)], {"keepdims": 0}))
    graph.graph.extend(nodes)
    output = nodes[-1].outputs[0]
    output.type, output.name = ir.TensorType(ir.DataType.FLOAT), prefix
    return prefix


def _integers(graph: ir.Model, name: str, numbers: Sequence[int]) -> ir.Value:
    return add_constant(graph.graph, name, np.array(numbers, np.int64))
