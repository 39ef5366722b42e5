"""Celu.

Before::

    y = Celu(x, alpha)

After::

    y = alpha * Elu(x / alpha)
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer


def _rewrite(node: ir.Node) -> Replacement | None:
    alpha = node.attributes.get_float("alpha", 1.0) or 1.0
    write = Writer(node)
    if alpha == 1.0:
        return write.replacement(write.add("Elu", node.inputs[0]))
    scaled = write.add("Mul", node.inputs[0], write.constant("inverse", 1.0 / alpha))
    curved = write.add("Elu", scaled)
    return write.replacement(write.add("Mul", curved, write.constant("alpha", float(alpha))))


RULE = Rule("Celu", ("Celu",), "Celu as Elu of a scaled input", _rewrite)
