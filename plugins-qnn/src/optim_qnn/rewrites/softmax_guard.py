"""The guard that exporters put behind Softmax.

Before::

    s = Softmax(scores);  y = Where(IsNaN(s), 0, s)

After::

    y = Softmax(scores)

Softmax gives NaN only for a row of infinities, which masks are once they are finite (:mod:`.finite_masks`): a row that
is masked altogether then spreads evenly instead of being zero. Integers have no NaN, so HTP could not keep the guard.
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule


def _rewrite(node: ir.Node) -> Replacement | None:
    condition, _, value = node.inputs
    test = condition.producer() if condition is not None else None
    softmax = value.producer() if value is not None else None
    if test is None or test.op_type != "IsNaN" or test.inputs[0] is not value or value is None:
        return None
    return Replacement((), value) if softmax is not None and softmax.op_type == "Softmax" else None


RULE = Rule("Softmax guard", ("Where",), "Softmax without a test for NaN", _rewrite)
