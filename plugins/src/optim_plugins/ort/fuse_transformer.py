"""``ort.fuse-transformer``: attention, normalization and activation as single operators of ONNX Runtime.

Two engines. ``onnxscript`` runs the fusions of ``onnxscript.rewriter.ort_fusions`` one after another, each of which
can be left out: a fused kernel is not always faster than its parts (SkipLayerNormalization on CPU), and an Attention
operator that swallows its projections cannot be quantized like matrix products can. ``onnxruntime`` runs
``onnxruntime.transformers.optimizer`` with the model type found from the graph.

Before, for one attention block::

    q, k, v = MatMul(x, Wq), MatMul(x, Wk), MatMul(x, Wv)
    y = MatMul(Softmax(MatMul(split(q), split(k)^T) * scale + mask), split(v))

After::

    y = com.microsoft.MultiHeadAttention(q, k, v, ..., mask)        or, with the projections swallowed,
    y = com.microsoft.Attention(x, Wqkv, bqkv, ..., mask)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.fuse_transformer_options import FuseTransformerOptions

_MEMORY_FACTOR = 6
_MEMORY_LIMIT_BYTES = 2 << 30
"""onnxruntime's optimizer holds several copies of the model."""


class FuseTransformer(Pass):
    """Transformer fusions for ONNX Runtime."""

    name = "ort.fuse-transformer"
    summary = "attention, normalization and activations as single operators of ONNX Runtime"
    options = "optim_plugins.ort.fuse_transformer_options:FuseTransformerOptions"
    after = ("ort.clean",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where the graph has what transformers are made of."""
        del target
        from optim.graphs.operators import operator_counts

        operators = {name.rpartition(":")[2] for name in operator_counts(model.path)}
        if operators & {"Softmax", "Attention"} and "MatMul" in operators:
            return APPLICABLE
        return Applicable.no("the graph has no attention: no Softmax beside a MatMul")

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[FuseTransformerOptions]:
        """Without the normalizations first: on most processors their fused kernels are no faster."""
        del target
        from optim.graphs.files import size_bytes
        from optim_plugins.ort.fuse_transformer_options import FuseTransformerOptions

        yield FuseTransformerOptions(leave_out=("skip_layer_normalization",))
        yield FuseTransformerOptions(leave_out=("skip_layer_normalization", "attention"))
        yield FuseTransformerOptions()
        if size_bytes(model) * _MEMORY_FACTOR > _MEMORY_LIMIT_BYTES:
            context.log.warning(
                "engine onnxruntime left out: it needs about %d times the model's memory, more than %d GiB",
                _MEMORY_FACTOR, _MEMORY_LIMIT_BYTES >> 30,
            )  # fmt: skip
        else:
            yield FuseTransformerOptions(engine="onnxruntime")

    def apply(self, model: Model, options: FuseTransformerOptions, context: Context) -> PassResult:
        """Fuse; what fused is in ``counts``."""
        if options.engine == "onnxruntime":
            from optim_plugins.ort.fusions_onnxruntime import fuse

            path, counts = fuse(model, context.scratch)
            if not any(counts.values()):
                return PassResult(model, changed=False, notes=("onnxruntime's optimizer found nothing to fuse",))
            return PassResult(context.adopt(path, model), changed=True, counts=counts)
        from optim_plugins.ort.fusions import fuse_graph

        graph = model.ir()
        counts, missed = fuse_graph(graph, options.leave_out)
        notes = tuple(f"not fused: {reason}" for reason in missed)
        if not counts:
            return PassResult(model, changed=False, notes=notes or ("none of its patterns is in the graph",))
        return PassResult(context.save(graph, model), changed=True, notes=notes, counts=counts)
