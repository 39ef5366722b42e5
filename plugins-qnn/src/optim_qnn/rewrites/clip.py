"""Clip between bounds that are computed.

Before::

    y = Clip(x, low, high)

After::

    y = Min(Max(x, low), high)
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    value, low, high = inputs_of(node, 3)
    bounds = [bound for bound in (low, high) if bound is not None]
    if value is None or all(constant_of(bound) is not None for bound in bounds):
        return None
    write = Writer(node)
    if low is not None:
        value = write.add("Max", value, low)
    return write.replacement(write.add("Min", value, high) if high is not None else value)


RULE = Rule("Clip", ("Clip",), "Clip between computed bounds as Min and Max", _rewrite)
