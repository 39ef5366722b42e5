"""The fusions of ``ort.fuse-transformer``, in their order, each one optional.

Attention is ours (:mod:`optim_plugins.ort.fuse.fuse_attention`): onnxscript's own patterns miss TorchScript exports and
decoders with a past, and its rewriting of Gemm takes GPT2 apart wrongly. Gelu by erf and SkipLayerNormalization are
``onnxscript.rewriter.ort_fusions``; Gelu by tanh is found in any form it is written in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
from optim_plugins.ort.graph.known_attributes import are_known, notes_on_unknown
from optim_plugins.ort.graph.known_values import producer
from optim_plugins.ort.prepare.clean_graph import clean
from optim_plugins.ort.prepare.shorten_reshapes import shorten_reshapes


def _if_known(fusion: Callable[[ir.Model], int], known: Mapping[str, Sequence[str]]) -> Callable[[ir.Model], int]:
    """A fusion of onnxscript that leaves a graph alone in which its operators have other attributes than it knows.

    Its patterns match a node whatever else the node says.
    """

    def fuse(graph: ir.Model) -> int:
        nodes = [node for node in graph.graph.all_nodes() if node.op_type in known]
        return int(fusion(graph)) if are_known(nodes, known) else 0

    return fuse


def _fuse_bias_gelu(graph: ir.Model) -> int:
    """Fuse unless a bias is a vector of one number: onnxruntime's operator reads one for each column."""
    sums = [producer(node.inputs[0], "Add") for node in graph.graph.all_nodes() if node.op_type == "Gelu"]
    shapes = [side.shape for node in sums if node is not None for side in node.inputs if side is not None]
    is_single = any(shape is not None and shape.is_static() and shape.numpy() == (1,) for shape in shapes)
    return 0 if is_single else int(fuse_bias_gelu(graph))


def _fuse_skip(graph: ir.Model) -> int:
    """Fuse unless a normalization is in float64: onnxruntime's operator is not."""
    found = [node.outputs[0].dtype for node in graph.graph.all_nodes() if node.op_type == "LayerNormalization"]
    return 0 if ir.DataType.DOUBLE in found else int(fuse_skip_layer_normalization(graph))


_GELU: Mapping[str, Sequence[str]] = dict.fromkeys(("Add", "Div", "Erf", "Mul", "Pow", "Tanh"), ())
_NORMALIZATION = {"Add": (), "LayerNormalization": ("axis", "epsilon", "stash_type")}

FUSIONS: Mapping[str, Callable[[ir.Model], int]] = {
    "reshapes": shorten_reshapes,
    "attention": pack_attention,
    "rotary_embedding": fuse_rotary,
    "rms_normalization": simplify_rms,
    "erf_gelu": _if_known(fuse_erfgelu, _GELU),
    "gelu": lambda graph: _if_known(fuse_gelu, _GELU)(graph) + fuse_tanh_gelu(graph),
    "bias_gelu": _if_known(_fuse_bias_gelu, {"Add": (), "Gelu": ("approximate",)}),
    "skip_layer_normalization": _if_known(_fuse_skip, _NORMALIZATION),
}
"""Each changes a graph in place and returns how often, in the order in which they are tried."""


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
    for name, fusion in FUSIONS.items():
        if name not in leave_out:
            counts[name] = int(fusion(graph))
    clean(graph)
    return {name: count for name, count in counts.items() if count}, [*missed, *notes_on_unknown(graph)]
