"""GatherND with constant indices: HTP takes it of floats only, and masks are booleans.

Before::

    y = GatherND(x, indices)

After::

    y = Reshape(Gather(Reshape(x, [-1, ...]), flat indices))        or Reshape(x) alone where they take all in order
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, fixed_shape, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    value, where = inputs_of(node, 2)
    shape, indices = fixed_shape(value), constant_of(where)
    if shape is None or indices is None or (node.attributes.get_int("batch_dims") or 0) != 0:
        return None
    depth = indices.shape[-1]
    taken, rest = shape[:depth], shape[depth:]
    places = np.where(indices < 0, indices + np.asarray(taken), indices).astype(np.int64)  # type: ignore[operator]
    flat = np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), taken)
    write = Writer(node)
    wanted = write.constant("shape", np.asarray((*indices.shape[:-1], *rest), np.int64))
    rows = math.prod(taken)
    if np.array_equal(flat.ravel(), np.arange(rows)):
        return write.replacement(write.add("Reshape", value, wanted))
    table = write.add("Reshape", value, write.constant("rows", np.asarray((rows, *rest), np.int64)))
    found = write.add("Gather", table, write.constant("places", flat.ravel()), axis=0)
    return write.replacement(write.add("Reshape", found, wanted))


RULE = Rule("GatherND", ("GatherND",), "GatherND with constant indices as Reshape and Gather", _rewrite)
