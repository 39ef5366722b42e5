"""A network of small products in a row, some beside a shortcut: rounding all of them is far beyond a budget."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_WIDTH = 24


def write_deep(path: Path, products: int) -> None:
    """Write x [batch, 24] to y of that size, with so many products between."""
    rng = np.random.default_rng(3)
    nodes, weights, last = [], [], "x"
    for place in range(products):
        weight = rng.standard_normal((_WIDTH, _WIDTH)) / np.sqrt(_WIDTH) * 1.4
        if place % 7 == 0:
            weight[rng.integers(_WIDTH), rng.integers(_WIDTH)] = 6.0
        weights.append(numpy_helper.from_array(weight.astype(np.float32), f"w{place}"))
        result = "y" if place == products - 1 else f"r{place}"
        nodes.append(helper.make_node("MatMul", [last, f"w{place}"], [f"m{place}"], name=f"MatMul_{place}"))
        before = f"m{place}"
        if place % 3 == 2 and place > 2:
            nodes.append(helper.make_node("Add", [before, f"r{place - 3}"], [f"a{place}"], name=f"Add_{place}"))
            before = f"a{place}"
        nodes.append(helper.make_node("Relu", [before], [result], name=f"Relu_{place}"))
        last = result
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", _WIDTH]) for name in "xy"]
    graph = helper.make_graph(nodes, "deep", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
