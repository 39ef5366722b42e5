"""A small network that wastes time on purpose, so that which of two graphs is faster is never in doubt.

``y = useful(x) + 0 * a(x) + 0 * b(x) + ...``: every group is a chain of MatMul and Relu of its own; leaving out a
group other than ``useful`` changes nothing but the time, in proportion to its layers. No runtime sees through it,
since zero times infinity is not zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from feed_models import FLOAT, build, constant, value
from onnx import helper

WIDTH, BATCH = 96, 6
"""Small enough that the runtime uses one thread: with two, a graph may be half as fast in one process as in another."""


def network(
    waste: Mapping[str, int] | None = None, *, useful: int = 2, outputs: tuple[str, ...] = ("y",), seed: int = 0
) -> onnx.ModelProto:
    """The network with ``waste`` layers by group; every output is the same sum over another useful chain."""
    zero, nodes, tables = constant("zero", np.float32(0)), [], []
    for number, output in enumerate(outputs):
        total = _chain("useful" if number == 0 else f"useful{number}", useful, nodes, tables, seed)
        for group, layers in (waste or {}).items() if number == 0 else ():
            last = _chain(group, layers, nodes, tables, seed)
            nodes.append(helper.make_node("Mul", [last, "zero"], [f"{group}_none"], f"{group}_times"))
            nodes.append(helper.make_node("Add", [total, f"{group}_none"], [f"{group}_sum"], f"{group}_add"))
            total = f"{group}_sum"
        nodes.append(helper.make_node("Neg", [total], [output], f"{output}_end"))
    shape = [BATCH, WIDTH]
    return build(
        nodes, [value("x", FLOAT, shape)], [value(output, FLOAT, shape) for output in outputs], [*tables, zero]
    )


def write_network(path: Path, waste: Mapping[str, int] | None = None, **kwargs) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(network(waste, **kwargs), path)
    return path


def without_group(graph, group: str) -> int:
    """Take a group out of an onnx-ir graph: its sum becomes what it was added to. The number of nodes that go."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    before = len(graph.graph)
    for node in list(graph.graph):
        if node.name == f"{group}_add":
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            graph.graph.remove(node, safe=True)
    RemoveUnusedNodesPass()(graph)
    return before - len(graph.graph)


def _chain(group: str, layers: int, nodes: list, tables: list, seed: int) -> str:
    rng = np.random.default_rng([seed, *group.encode()])
    current = "x"
    for layer in range(layers):
        weight, raw, active = (f"{group}_{layer}_{part}" for part in ("weight", "raw", "active"))
        tables.append(constant(weight, (rng.standard_normal((WIDTH, WIDTH)) * (2 / WIDTH) ** 0.5).astype(np.float32)))
        nodes.append(helper.make_node("MatMul", [current, weight], [raw], f"{group}_{layer}_matmul"))
        nodes.append(helper.make_node("Relu", [raw], [active], f"{group}_{layer}_relu"))
        current = active
    return current
