"""``ort.fuse-transformer``: attention, normalization and activation as single operators of ONNX Runtime.

Two engines. ``optim`` runs the fusions of :mod:`optim_plugins.ort.fuse.fusions`. Each fusion can be left out: a fused
kernel is not always faster than its parts (SkipLayerNormalization on CPU), and an Attention operator with its
projections inside cannot be quantized like matrix products. ``onnxruntime`` runs
``onnxruntime.transformers.optimizer`` with the model type found from the graph. Its switches have options by their
names. Only ``force_fp16_inputs`` and int32 inputs have none: ``ort.convert-float16`` converts afterwards, and the
inputs keep their types so that your program stays as it is.

Before, for one attention block::

    q, k, v = MatMul(x, Wq), MatMul(x, Wk), MatMul(x, Wv)
    y = MatMul(Softmax(MatMul(split(q), split(k)^T) * scale + mask), split(v))

After::

    y = com.microsoft.MultiHeadAttention(q, k, v, ..., mask)        or, with the projections taken in,
    y = com.microsoft.Attention(x, Wqkv, bqkv, ..., mask)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.fuse.fuse_transformer_options import FuseTransformerOptions, Fusion

CUDA = "CUDAExecutionProvider"
WEBGPU = "webgpu"

_MEMORY_FACTOR = 6
_MEMORY_LIMIT_BYTES = 2 << 30
"""onnxruntime's optimizer holds several copies of the model."""


class FuseTransformer(Pass):
    """Transformer fusions for ONNX Runtime."""

    name = "ort.fuse-transformer"
    summary = "writes attention, normalizations and activations as single operators of ONNX Runtime"
    options = "optim_plugins.ort.fuse.fuse_transformer_options:FuseTransformerOptions"
    after = ("ort.clean",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the graph has operators of a transformer."""
        from optim.onnx import operator_counts

        operators = operator_counts(model.path)
        if "MatMul" in operators and {"Softmax", "com.microsoft:GroupQueryAttention"} & operators.keys():
            return APPLICABLE
        return Applicable.no("the graph has no attention to fuse: no Softmax beside a MatMul")

    def refuse(self, options: FuseTransformerOptions, target: Target) -> None:
        """Packed attention for anything but CUDA.

        Raises:
            OptimError[no-packing]: the target has no kernels for it.
        """
        if options.packing and target.made_for != CUDA:
            raise OptimError.usage(
                "no-packing",
                f"pass {self.name} cannot pack attention for target {target.name}",
                "onnxruntime only has kernels of PackedAttention for CUDA",
                "leave packing out, or use --target cuda",
            )

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[FuseTransformerOptions]:
        """On processors without the normalizations first, whose fused kernels are no faster there; on CUDA with.

        Attention with its projections is at most 5 % faster than without on processors, and none of these can be
        quantized: beneath 8 bits a ViT takes 1.4 times as long with it. It comes after that.
        """
        from optim_plugins.ort.fuse.fuse_transformer_options import FuseTransformerOptions
        from optim_plugins.ort.fuse.fusions import possible_fusions
        from optim_plugins.ort.kernels import CPU_PROVIDER

        possible = possible_fusions(model.ir())
        norms = ("skip_layer_normalization",) if "skip_layer_normalization" in possible else ()
        without: tuple[Fusion, ...] = ()
        if target.made_for == WEBGPU:
            without, norms = ("bias_gelu",), ()  # it has no kernel for BiasGelu, and one for SkipLayerNormalization
        first, second = ((), norms) if target.made_for == CUDA else ((*without, *norms), ())
        packings = (first, (*first, "attention")) if "attention" in possible else ((*first, "attention"),)
        for left_out in packings if target.made_for != CPU_PROVIDER else reversed(packings):
            yield FuseTransformerOptions(leave_out=left_out)
        if norms:
            yield FuseTransformerOptions(leave_out=second)
        yield FuseTransformerOptions(engine="onnxruntime")

    def apply(self, model: Model, options: FuseTransformerOptions, context: Context) -> PassResult:
        """Fuse; what fused is in ``counts``."""
        if options.engine == "onnxruntime":
            return _by_onnxruntime(model, options, context)
        from optim_plugins.ort.fuse.fusions import fuse_graph

        graph = model.ir()
        counts, missed = fuse_graph(graph, options.leave_out)
        notes = tuple(f"not fused: {reason}" for reason in missed)
        if not counts:
            return PassResult(model, changed=False, notes=notes or ("none of its patterns is in the graph",))
        return PassResult(context.save(graph, model), changed=True, notes=notes, counts=counts)


def _by_onnxruntime(model: Model, options: FuseTransformerOptions, context: Context) -> PassResult:
    from optim.onnx import model_size_bytes
    from optim_plugins.ort.fuse.fusions_onnxruntime import fuse

    needed = model_size_bytes(model) * _MEMORY_FACTOR
    if needed > _MEMORY_LIMIT_BYTES:
        reason = (
            f"engine onnxruntime left out: it would need about {needed / 2**30:.1f} GiB of memory, "
            f"{_MEMORY_FACTOR} times the model, more than {_MEMORY_LIMIT_BYTES >> 30} GiB"
        )
        return PassResult(model, changed=False, notes=(reason,))
    path, counts, notes = fuse(model, options, context.scratch, use_gpu=context.target.made_for == CUDA)
    if not counts:
        return PassResult(model, changed=False, notes=("onnxruntime's optimizer found nothing to fuse", *notes))
    return PassResult(context.adopt(path, model), changed=True, notes=notes, counts=counts)
