"""A weight stored once more, its axes in another order."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir


def add_transposed(graph: ir.Model, weight: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """A new initializer of the main graph; its bytes are made when it is written, so that no two are held at a time."""
    source = weight.const_value
    assert source is not None
    sizes = source.shape.numpy()
    name = _fresh(graph, f"{weight.name}_transposed")

    def transpose() -> ir.TensorProtocol:
        return ir.tensor(np.ascontiguousarray(source.numpy().transpose(order)), name=name)

    tensor = ir.LazyTensor(transpose, dtype=source.dtype, shape=ir.Shape([sizes[axis] for axis in order]), name=name)
    value = ir.Value(name=name, shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    graph.graph.register_initializer(value)
    return value


def _fresh(graph: ir.Model, name: str) -> str:
    taken = {value.name for part in graph.graphs() for value in part.initializers.values()}
    taken |= {output.name for node in graph.graph.all_nodes() for output in node.outputs}
    while name in taken:
        name += "_"
    return name
