"""Cleaning of an onnx-ir graph without touching large weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    IdentityEliminationPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
)
from onnxscript.optimizer import fold_constants

if TYPE_CHECKING:
    import onnx_ir as ir

_LARGEST_BYTES = 64 << 10
"""Constants above this are not folded: folding a weight writes it anew."""


def clean(graph: ir.Model) -> None:
    """Infer shapes, fold small constants, merge equal nodes, drop what does nothing or is not used; in place."""
    fold_constants(graph, input_size_limit=_LARGEST_BYTES, output_size_limit=_LARGEST_BYTES)
    for step in (IdentityEliminationPass(), CommonSubexpressionEliminationPass(), RemoveUnusedNodesPass(), RemoveUnusedOpsetsPass()):
        step(graph)
