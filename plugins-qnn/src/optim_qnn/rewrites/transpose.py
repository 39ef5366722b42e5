"""Transpose of more than five dimensions.

Before::

    y = Transpose(x, perm)                                  x of rank 6 or more

After::

    y = Reshape(Transpose(Reshape(x)))                      what stays together as one, sizes of 1 left out
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, fixed_shape

_MOST_DIMENSIONS = 5


def _rewrite(node: ir.Node) -> Replacement | None:
    shape, perm = fixed_shape(node.inputs[0]), node.attributes.get_ints("perm")
    if shape is None or len(shape) <= _MOST_DIMENSIONS:
        return None
    order = [axis for axis in perm or reversed(range(len(shape))) if shape[axis] != 1]
    groups: list[list[int]] = []
    for axis in order:
        between = range(groups[-1][-1] + 1, axis) if groups else range(0)
        if groups and axis > groups[-1][-1] and all(shape[skipped] == 1 for skipped in between):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    if not groups or len(groups) > _MOST_DIMENSIONS:
        return None
    ranked = sorted(range(len(groups)), key=lambda group: groups[group][0])
    sizes = [math.prod(shape[axis] for axis in groups[group]) for group in ranked]
    write = Writer(node)
    source = node.inputs[0]
    producer = source.producer() if source is not None else None
    if producer is not None and producer.op_type == "Reshape":
        source = producer.inputs[0]
    flat = write.add("Reshape", source, write.constant("merged", np.asarray(sizes, np.int64)))
    turned = write.add("Transpose", flat, perm=[ranked.index(group) for group in range(len(groups))])
    target = np.asarray([shape[axis] for axis in perm or reversed(range(len(shape)))], np.int64)
    return write.replacement(write.add("Reshape", turned, write.constant("shape", target)))


RULE = Rule("Transpose", ("Transpose",), "Transpose of many dimensions as one of few", _rewrite)
