"""The fusions of ``ort.fuse-transformer``, in their order, each one optional.

Attention is ours (:mod:`optim_plugins.ort.fuse.fuse_attention`): onnxscript's own patterns miss TorchScript exports and
decoders with a past, and its rewriting of Gemm takes GPT2 apart wrongly. Gelu by erf and SkipLayerNormalization are
``onnxscript.rewriter.ort_fusions``; Gelu by tanh is found in any form it is written in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir
from onnxscript.rewriter.ort_fusions.bias_gelu import fuse_bias_gelu
from onnxscript.rewriter.ort_fusions.erfgelu import fuse_erfgelu
from onnxscript.rewriter.ort_fusions.gelu import fuse_gelu
from onnxscript.rewriter.ort_fusions.skip_normalization import fuse_skip_layer_normalization

from optim_plugins.ort.fuse.fuse_attention import fuse_attention
from optim_plugins.ort.fuse.fuse_rotary import fuse_rotary
from optim_plugins.ort.fuse.fuse_tanh_gelu import fuse_tanh_gelu
from optim_plugins.ort.fuse.pack_attention import find_packable, pack_attention
from optim_plugins.ort.fuse.simplify_rms import simplify_rms
from optim_plugins.ort.graph.known_attributes import notes_on_unknown
from optim_plugins.ort.prepare.clean_graph import clean
from optim_plugins.ort.prepare.shorten_reshapes import shorten_reshapes

_SIMPLE: tuple[tuple[str, Callable[[ir.Model], int]], ...] = (
    ("reshapes", shorten_reshapes),
    ("attention", pack_attention),
    ("rotary_embedding", fuse_rotary),
    ("rms_normalization", simplify_rms),
    ("erf_gelu", fuse_erfgelu),
    ("gelu", lambda graph: int(fuse_gelu(graph)) + fuse_tanh_gelu(graph)),
    ("bias_gelu", fuse_bias_gelu),
    ("skip_layer_normalization", fuse_skip_layer_normalization),
)


def possible_fusions(graph: ir.Model) -> frozenset[str]:
    """Which fusions would change a graph, found on ``graph``, which is used up; reads no weights."""
    counts, _ = fuse_graph(graph, ("attention",))
    packable = ("attention",) if next(find_packable(graph), None) is not None else ()
    return frozenset((*counts, *packable))


def fuse_graph(graph: ir.Model, leave_out: Sequence[str]) -> tuple[dict[str, int], list[str]]:
    """Fuse in place.

    Args:
        graph: changed.
        leave_out: fusions not to run.

    Returns:
        How often each fusion was applied, and for each place that was found but not fused, why.
    """
    clean(graph)
    counts: dict[str, int] = {}
    missed: list[str] = []
    if "multi_head_attention" not in leave_out:
        counts["multi_head_attention"], missed = fuse_attention(graph)
        clean(graph)
    for name, fusion in _SIMPLE:
        if name not in leave_out:
            counts[name] = int(fusion(graph))
    clean(graph)
    return {name: count for name, count in counts.items() if count}, [*missed, *notes_on_unknown(graph)]
