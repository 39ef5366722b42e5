"""Types and shapes of the values of a graph, as far as onnx infers them.

As ``onnx_ir.passes.common.ShapeInferencePass``, which makes a tensor of every value without a type, of a sequence too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx
import onnx_ir as ir

_MOST_ELEMENTS = 1000
"""Larger weights are left out of what onnx is given: nothing follows from their numbers."""


def infer_shapes(graph: ir.Model, *, strict: bool = True) -> None:
    """Give values the types and shapes that follow from the operators.

    Args:
        graph: changed in place.
        strict: leave all as it is where onnx refuses a node; else go on with what it takes.
    """
    with weights_as_inputs(graph):
        proto = ir.serde.serialize_model(graph)
    try:
        inferred = onnx.shape_inference.infer_shapes(proto, check_type=strict, strict_mode=strict, data_prop=True)
    except Exception:  # onnx raises whatever its operators' functions raise; what is known already stays
        return
    for part, other in zip(graph.graphs(), ir.serde.deserialize_model(inferred).graphs(), strict=True):
        known = ir.convenience.create_value_mapping(other)
        for name, value in ir.convenience.create_value_mapping(part).items():
            found = known.get(name)
            if found is None:
                continue
            value.type = found.type or value.type
            value.shape = value.shape if found.shape is None else found.shape


@contextmanager
def weights_as_inputs(graph: ir.Model) -> Iterator[None]:
    """Large weights of the main graph as inputs of their type and shape."""
    main = graph.graph
    inputs = list(main.inputs)
    large = [value for value in main.initializers.values() if value.const_value is not None]
    large = [value for value in large if value.const_value is not None and value.const_value.size > _MOST_ELEMENTS]
    for value in large:
        assert value.name is not None
        assert value.const_value is not None
        value.shape = value.shape or ir.Shape(value.const_value.shape.numpy())
        value.type = value.type or ir.TensorType(value.const_value.dtype)
        if value not in inputs:
            main.inputs.append(value)
        main.initializers.pop(value.name)
    try:
        yield
    finally:
        main.inputs.clear()
        main.inputs.extend(inputs)
        for value in large:
            main.register_initializer(value)
