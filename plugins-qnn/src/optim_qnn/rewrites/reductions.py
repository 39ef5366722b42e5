"""ReduceL1, ReduceSumSquare and ReduceLogSum.

Before::

    y = ReduceL1(x)           y = ReduceSumSquare(x)      y = ReduceLogSum(x)

After::

    y = ReduceSum(Abs(x))     y = ReduceSum(x * x)        y = Log(ReduceSum(x))
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, inputs_of

_SUM_WITH_INPUT = 13
"""ReduceSum takes axes as an input from this opset on; the others from 18."""


def _rewrite(node: ir.Node) -> Replacement | None:
    if node.version is not None and node.version < _SUM_WITH_INPUT:
        return None
    write = Writer(node)
    value, axes = inputs_of(node, 2)
    if axes is not None and constant_of(axes) is None:
        return None
    given = node.attributes.get_ints("axes")
    if axes is None and given is not None:
        axes = write.constant("axes", np.asarray(given, np.int64))
    if node.op_type == "ReduceL1":
        value = write.add("Abs", value)
    elif node.op_type == "ReduceSumSquare":
        value = write.add("Mul", value, value)
    usual = {"keepdims": 1, "noop_with_empty_axes": 0}
    kept = {name: node.attributes.get_int(name, default) for name, default in usual.items()}
    total = write.add("ReduceSum", value, *([axes] if axes is not None else []), **kept)
    return write.replacement(write.add("Log", total) if node.op_type == "ReduceLogSum" else total)


RULE = Rule(
    "ReduceL1, ReduceSumSquare, ReduceLogSum",
    ("ReduceL1", "ReduceSumSquare", "ReduceLogSum"),
    "other reductions as ReduceSum",
    _rewrite,
)
