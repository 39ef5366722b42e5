"""Gemm with alpha or beta.

Before::

    y = Gemm(a, b, c, alpha, beta)          b and c constants

After::

    y = Gemm(a, alpha * b, beta * c)
"""

from __future__ import annotations

import onnx_ir as ir

from optim_qnn.rewrites.rule import Replacement, Rule, Writer, constant_of, inputs_of


def _rewrite(node: ir.Node) -> Replacement | None:
    alpha, beta = node.attributes.get_float("alpha", 1.0), node.attributes.get_float("beta", 1.0)
    value, weight, bias = inputs_of(node, 3)
    weights, biases = constant_of(weight), constant_of(bias)
    if (alpha == 1.0 and beta == 1.0) or weights is None or (bias is not None and biases is None):
        return None
    write = Writer(node)
    scaled = [write.constant("scaled", (weights * alpha).astype(weights.dtype))]  # type: ignore[operator]
    if biases is not None:
        scaled.append(write.constant("scaled_bias", (biases * beta).astype(biases.dtype)))  # type: ignore[operator]
    turned = {name: node.attributes.get_int(name, 0) for name in ("transA", "transB")}
    return write.replacement(write.add("Gemm", value, *scaled, **turned))


RULE = Rule("Gemm", ("Gemm",), "alpha and beta of Gemm in its weights", _rewrite)
