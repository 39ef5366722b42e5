"""Sinh and Cosh.

Before::

    y = Sinh(x)                             y = Cosh(x)

After::

    y = (Exp(x) - Exp(-x)) / 2              y = (Exp(x) + Exp(-x)) / 2
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer


def _rewrite(node: ir.Node) -> Replacement | None:
    write = Writer(node)
    up, down = write.add("Exp", node.inputs[0]), write.add("Exp", write.add("Neg", node.inputs[0]))
    both = write.add("Sub" if node.op_type == "Sinh" else "Add", up, down)
    return write.replacement(write.add("Mul", both, write.constant("half", 0.5)))


RULE = Rule("Sinh, Cosh", ("Sinh", "Cosh"), "hyperbolic functions as exponentials", _rewrite)
