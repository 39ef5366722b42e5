"""Reshape of a Reshape, which may pass through more dimensions than HTP has.

Before::

    y = Reshape(Reshape(x, first), second)

After::

    y = Reshape(x, second)
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    value, wanted = inputs_of(node, 2)
    producer = value.producer() if value is not None else None
    shape = constant_of(wanted)
    if producer is None or producer.op_type != "Reshape" or shape is None or (shape == 0).any():
        return None
    write = Writer(node)
    return write.replacement(write.add("Reshape", producer.inputs[0], wanted))


RULE = Rule("Reshape", ("Reshape",), "a Reshape of a Reshape as one", _rewrite)
