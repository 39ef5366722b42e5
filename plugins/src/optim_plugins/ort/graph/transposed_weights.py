"""A weight stored once more, its axes in another order."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim.onnx import UniqueNames, add_constant


def add_transposed(graph: ir.Model, weight: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """A new initializer of the main graph; its bytes are made when it is written, so that no two are held at a time."""
    source = weight.const_value
    assert source is not None
    sizes = source.shape.numpy()
    name = UniqueNames(graph).take(f"{weight.name}_transposed")

    def transpose() -> ir.TensorProtocol:
        return ir.tensor(np.ascontiguousarray(source.numpy().transpose(order)), name=name)

    tensor = ir.LazyTensor(transpose, dtype=source.dtype, shape=ir.Shape([sizes[axis] for axis in order]), name=name)
    return add_constant(graph.graph, name, tensor)
