"""GroupNormalization, which onnxruntime 1.31 turns to channels-last for QNN and which QNN then does not take.

Before::

    y = GroupNormalization(x, scale, bias, num_groups)                          x [N, C, ...]

After::

    g = Reshape(InstanceNormalization(Reshape(x, [N, groups, -1]), 1, 0), x's shape)
    y = g * scale + bias
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from optim.arrays import Array
from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, fixed_shape, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    value, scale, bias = inputs_of(node, 3)
    shape, groups = fixed_shape(value), node.attributes.get_int("num_groups")
    scales, biases = constant_of(scale), constant_of(bias)
    if shape is None or not groups or scales is None or biases is None or len(shape) < 3:
        return None
    channels = (1, shape[1]) + (1,) * (len(shape) - 2)

    def by_channel(array: Array) -> Array:
        # opset 18 has one number for each group, 21 one for each channel
        return array.repeat(shape[1] // array.size).reshape(channels)

    write = Writer(node)
    grouped = np.asarray((shape[0], groups, math.prod(shape[1:]) // groups), np.int64)
    flat = write.add("Reshape", value, write.constant("groups", grouped))
    ones, zeros = np.ones(groups, scales.dtype), np.zeros(groups, scales.dtype)
    normal = write.add(
        "InstanceNormalization",
        flat,
        write.constant("ones", ones),
        write.constant("zeros", zeros),
        epsilon=node.attributes.get_float("epsilon", 1e-5),
    )
    back = write.add("Reshape", normal, write.constant("shape", np.asarray(shape, np.int64)))
    scaled = write.add("Mul", back, write.constant("scale", by_channel(scales)))
    return write.replacement(write.add("Add", scaled, write.constant("bias", by_channel(biases))))


RULE = Rule(
    "GroupNormalization", ("GroupNormalization",), "GroupNormalization as InstanceNormalization of groups", _rewrite
)
