"""onnxscript's fusions for ONNX Runtime, in their order, each one optional.

The order is that of ``onnxscript.rewriter.ort_fusions.fuse_xformers``: later fusions match what earlier ones made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    LiftConstantsToInitializersPass,
    RemoveInitializersFromInputsPass,
    ShapeInferencePass,
)
from onnxscript.optimizer import optimize
from onnxscript.rewriter import rewrite
from onnxscript.rewriter.ort_fusions import shape_optimization
from onnxscript.rewriter.ort_fusions._core import (
    ORT_PATTERN_REWRITE_RULES,
    fuse_attention,
    fuse_bias_gelu,
    fuse_cos_sin_cache,
    fuse_erfgelu,
    fuse_gelu,
    fuse_gqa,
    fuse_mha1,
    fuse_mha2,
    fuse_mha_bias,
    fuse_mha_scale,
    fuse_partial_rotary_embedding,
    fuse_qkv_gqa,
    fuse_rms_normalization,
    fuse_rotary_embedding,
    fuse_sdpa,
    fuse_skip_layer_normalization,
    fuse_skip_rms_normalization,
    replace_sdpa_by_mha,
)
from onnxscript.rewriter.rules.common import _gemm_to_matmul_add

from optim_plugins.ort.clean_graph import fold_constants

if TYPE_CHECKING:
    import onnx_ir as ir

Fusion = Callable[..., int]

_BEFORE_SDPA: tuple[tuple[str, Fusion], ...] = (
    ("erf_gelu", fuse_erfgelu),
    ("rms_normalization", fuse_rms_normalization),
    ("skip_layer_normalization", fuse_skip_layer_normalization),
    ("skip_rms_normalization", fuse_skip_rms_normalization),
    ("rotary_embedding", fuse_rotary_embedding),
    ("cos_sin_cache", fuse_cos_sin_cache),
)
_AFTER_SDPA: tuple[tuple[str, Fusion], ...] = (
    ("gqa", fuse_gqa),
    ("packed_qkv_for_gqa", fuse_qkv_gqa),
    ("mha1", fuse_mha1),
    ("mha2", fuse_mha2),
    ("mha_scale", fuse_mha_scale),
    ("mha_bias", fuse_mha_bias),
    ("attention", fuse_attention),
    ("gelu", fuse_gelu),
    ("bias_gelu", fuse_bias_gelu),
    ("sdpa_via_mha", replace_sdpa_by_mha),
)
_NEEDS_MHA = frozenset(("mha_bias", "attention"))


def fuse_graph(graph: ir.Model, leave_out: frozenset[str]) -> dict[str, int]:
    """Fuse in place.

    Args:
        graph: changed.
        leave_out: fusions not to run.

    Returns:
        How often each fusion that ran was applied.
    """
    rewrite(graph, [_gemm_to_matmul_add.gemm_to_matmul_add_rule])
    ShapeInferencePass()(graph)
    fold_constants(graph)
    shape_optimization.rules.apply_to_model(graph)
    fold_constants(graph)
    counts: dict[str, int] = {}

    def run(name: str, fusion: Fusion, **arguments: Any) -> None:
        if name not in leave_out:
            counts[name] = int(fusion(graph, **arguments))

    for name, fusion in _BEFORE_SDPA:
        run(name, fusion)
    CommonSubexpressionEliminationPass()(graph)
    run("partial_rotary_embedding", fuse_partial_rotary_embedding)
    run("sdpa", fuse_sdpa, apply_shape_inference=True)
    for name, fusion in _AFTER_SDPA:
        if name not in _NEEDS_MHA or counts.get("mha1", 0) + counts.get("mha2", 0):
            run(name, fusion)
    optimize(graph)
    rewrite(graph, ORT_PATTERN_REWRITE_RULES)
    for step in (LiftConstantsToInitializersPass(lift_all_constants=False, size_limit=1), RemoveInitializersFromInputsPass(), ShapeInferencePass()):
        step(graph)
    return {name: count for name, count in counts.items() if count}
