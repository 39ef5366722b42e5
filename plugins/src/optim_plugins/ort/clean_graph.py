"""Cleaning of an onnx-ir graph without touching large weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    IdentityEliminationPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
)
from onnxscript.optimizer import fold_constants as fold
from onnxscript.optimizer import optimize_ir

if TYPE_CHECKING:
    import onnx_ir as ir

_LARGEST_INPUT = 64 << 10
"""Constants above this many bytes are not folded: folding a weight writes it anew."""


def fold_constants(graph: ir.Model) -> None:
    """Fold constants and propagate shapes; weights stay where they are."""
    optimize_ir(graph, input_size_limit=_LARGEST_INPUT, output_size_limit=_LARGEST_INPUT)


def clean(graph: ir.Model) -> None:
    """Fold small constants, merge equal nodes, drop what does nothing or is not used."""
    fold(graph, input_size_limit=_LARGEST_INPUT, output_size_limit=_LARGEST_INPUT)
    for step in (IdentityEliminationPass(), CommonSubexpressionEliminationPass(), RemoveUnusedNodesPass(), RemoveUnusedOpsetsPass()):
        step(graph)
