"""Softsign.

Before::

    y = Softsign(x)

After::

    y = x / (1 + Abs(x))
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer


def _rewrite(node: ir.Node) -> Replacement | None:
    write = Writer(node)
    size = write.add("Add", write.add("Abs", node.inputs[0]), write.constant("one", 1.0))
    return write.replacement(write.add("Div", node.inputs[0], size))


RULE = Rule("Softsign", ("Softsign",), "Softsign as x / (1 + |x|)", _rewrite)
