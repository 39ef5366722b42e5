"""``cuda.fuse``: operators that ONNX Runtime has for CUDA alone.

The fusions that every provider of ONNX Runtime's own kernels reads are ``ort.fuse-transformer``'s, with CUDA's choices.
These come after them: attention with queries, keys and values packed into one
(:mod:`optim_plugins.nvidia.cuda.packed_attention`), and group normalization in channels-last
(:mod:`optim_plugins.nvidia.cuda.group_norm`). The CPU has kernels for neither. If the caller says that nothing is
padded, attention over a shared past loses its mask (:mod:`optim_plugins.nvidia.cuda.grouped_query`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, SessionConfig, Target
from optim.providers import CUDA, GROUP_QUERY_FUSION

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

    from optim_plugins.nvidia.cuda.fuse_options import FuseOptions


class Fuse(Pass):
    """Packed attention, group normalization, attention over a past without its mask."""

    name = "cuda.fuse"
    summary = "uses operators that ONNX Runtime only has for CUDA: packed attention, group normalization"
    options = "optim_plugins.nvidia.cuda.fuse_options:FuseOptions"
    after = ("ort.fuse-transformer",)
    hardware = "a GPU of NVIDIA's: no other provider has kernels for them"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the graph may have one of its patterns."""
        from optim.onnx import operator_counts

        operators = {name.rpartition(":")[2] for name in operator_counts(model.path)}
        if {"MultiHeadAttention", "InstanceNormalization", "GroupQueryAttention"} & operators:
            return APPLICABLE
        return Applicable.no(
            "no MultiHeadAttention (ort.fuse-transformer makes it), no GroupQueryAttention (ort.share-past) and no"
            " InstanceNormalization is in the graph"
        )

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """On CUDA alone: where models are only prepared, nothing could run the result."""
        if target.provider == CUDA:
            return APPLICABLE
        return Applicable.no(f"{target.provider} has no kernels for what it makes: it is tried on a GPU")

    def apply(self, model: Model, options: FuseOptions, context: Context) -> PassResult:
        """Fuse; what fused is in ``counts``."""
        from optim_plugins.nvidia.cuda.group_norm import fuse_group_norm
        from optim_plugins.nvidia.cuda.grouped_query import drop_causal_masks
        from optim_plugins.nvidia.cuda.packed_attention import pack_attention
        from optim_plugins.ort.graph.known_attributes import notes_on_unknown
        from optim_plugins.ort.prepare.clean_graph import clean

        graph = model.ir()
        fusions: dict[str, Callable[[ir.Model], int]] = {
            "packed_attention": pack_attention,
            "group_norm": fuse_group_norm,
        }
        counts = {name: fusion(graph) for name, fusion in fusions.items() if name not in options.leave_out}
        if options.unpadded:
            counts["grouped_query"] = drop_causal_masks(graph)
        if not any(counts.values()):
            notes = notes_on_unknown(graph) or ("none of its patterns is in the graph",)
            return PassResult(model, changed=False, notes=notes, counts=counts)
        notes = notes_on_unknown(graph)
        clean(graph)
        fused = context.save(graph, model)
        if counts.get("grouped_query"):  # onnxruntime's would take cosines of this run's tokens for those of all
            fused = fused.with_session(SessionConfig(disabled_optimizers=(GROUP_QUERY_FUSION,)))
        return PassResult(fused, changed=True, notes=notes, counts=counts)
