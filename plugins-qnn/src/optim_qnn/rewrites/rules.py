"""All rules, in the order in which they are applied."""

from __future__ import annotations

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from optim_qnn.rewrites import (
    celu,
    clip,
    finite_masks,
    gather_nd,
    gemm,
    group_norm,
    hyperbolic,
    layer_norm,
    reductions,
    reshape,
    softmax_guard,
    softsign,
    transpose,
    trilu,
)

RULES = (
    softmax_guard.RULE,
    gather_nd.RULE,
    trilu.RULE,
    gemm.RULE,
    layer_norm.RULE,
    group_norm.RULE,
    clip.RULE,
    reductions.RULE,
    celu.RULE,
    softsign.RULE,
    hyperbolic.RULE,
    transpose.RULE,
    reshape.RULE,
)


def rewrite(model: ir.Model) -> dict[str, int]:
    """Apply every rule; what was rewritten, by the rule's name, without those that fit nothing."""
    counts = {rule.name: rule.apply(model) for rule in RULES}
    counts[finite_masks.NAME] = finite_masks.make_masks_finite(model)
    if any(counts.values()):
        RemoveUnusedNodesPass()(model)
    return {name: count for name, count in counts.items() if count}


def rule_for(node: ir.Node) -> str:
    """What the rewrite of a node does, or nothing where there is none."""
    return next((rule.summary for rule in RULES if rule.fits(node)), "")
