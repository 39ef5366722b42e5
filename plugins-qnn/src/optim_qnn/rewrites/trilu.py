"""Trilu of a fixed shape.

Before::

    y = Trilu(x, k)

After::

    y = Where(triangle, x, 0)               triangle: a constant of booleans
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, fixed_shape, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    value, diagonal = inputs_of(node, 2)
    shape, offset = fixed_shape(value), constant_of(diagonal)
    if shape is None or (diagonal is not None and offset is None):
        return None
    k = int(offset.reshape(())) if offset is not None else 0
    ones = np.ones(shape[-2:], np.bool_)
    write = Writer(node)
    triangle = np.triu(ones, k) if node.attributes.get_int("upper", 1) else np.tril(ones, k)
    return write.replacement(
        write.add("Where", write.constant("triangle", triangle), value, write.constant("zero", 0.0))
    )


RULE = Rule("Trilu", ("Trilu",), "Trilu as Where with a constant triangle", _rewrite)
