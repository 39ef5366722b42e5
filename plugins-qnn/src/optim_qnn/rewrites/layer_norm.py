"""LayerNormalization over several axes.

Before::

    y = LayerNormalization(x, scale, bias, axis)            over more than the last axis

After::

    y = Reshape(LayerNormalization(Reshape(x, [..., -1]), scale, bias, axis=-1))      scale and bias flattened
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, fixed_shape, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    value, scale, bias = inputs_of(node, 3)
    shape, axis = fixed_shape(value), node.attributes.get_int("axis", -1)
    if shape is None or axis is None or axis % len(shape) == len(shape) - 1 or len(node.outputs) > 1:
        return None
    constants = [constant_of(scale), *([constant_of(bias)] if bias is not None else [])]
    last = math.prod(shape[axis % len(shape) :])
    if any(array is None or array.size != last for array in constants):
        return None
    write = Writer(node)
    flat = write.constant("flat", np.asarray((*shape[: axis % len(shape)], last), np.int64))
    weights = [write.constant(f"flat{i}", array.reshape(-1)) for i, array in enumerate(constants) if array is not None]
    epsilon = node.attributes.get_float("epsilon", 1e-5)
    normal = write.add("LayerNormalization", write.add("Reshape", value, flat), *weights, axis=-1, epsilon=epsilon)
    return write.replacement(write.add("Reshape", normal, write.constant("shape", np.asarray(shape, np.int64))))


RULE = Rule(
    "LayerNormalization", ("LayerNormalization",), "LayerNormalization over several axes as one over the last", _rewrite
)
