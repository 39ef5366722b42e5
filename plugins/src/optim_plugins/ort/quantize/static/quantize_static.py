"""``ort.quantize-static``: activations and weights in 8 bits, ranges of activations fixed on samples beforehand.

``static_plan`` chooses the nodes. ``qoperator_writer`` and ``qdq_writer`` write them, each with its patterns before and
after. The pass first puts the graph into operators that have 8-bit forms (``quantizable_operators``), and raises its
opset if it must.

It suits convolutional nets. In transformers ``ort.quantize-dynamic`` is about as fast and takes its ranges from each
input; outliers of some channels hurt both, and ``smoothing`` helps both.

These have no option:

- Weights are symmetric, with one zero point, because onnxruntime's convolutions take no zero point for each channel.
- Scales of a weight are those of its output channels, because kernels take no other axis.
- Nodes inside branches (merged decoders) stay in float, because onnxruntime does not show their tensors for
  calibration. ``ort.quantize-dynamic`` needs no calibration and quantizes them.
- A node is not forced into integers if its neighbours are floats, because the conversions take longer than the node.
- Calibration reads one sample at a time and counts in a fixed number of bins, so no option limits its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from optim import APPLICABLE, Applicable, Context, KernelUse, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions


class QuantizeStatic(Pass):
    """Static quantization."""

    name = "ort.quantize-static"
    summary = "quantizes convolutions and matrix products to 8 bits; samples calibrate the ranges of activations"
    options = "optim_plugins.ort.quantize.static.quantize_static_options:QuantizeStaticOptions"
    lossy = True
    calibrates = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    makes = "int8"
    hardware = "x86-64 with VNNI (AVX512-VNNI, AVX-VNNI) or Arm with dot product; without them some weights get 7 bits"
    why_none = (
        "it sees a few rows at a time (a decoder's step), and these do not show what ranges the next ones will have; "
        "ort.quantize-dynamic and ort.quantize-weights need no ranges"
    )

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has a convolution or a matrix product with a constant weight."""
        from optim import OptimError
        from optim_plugins.ort.quantize.quantized_already import nothing_to_quantize
        from optim_plugins.ort.quantize.static.static_graph import prepared
        from optim_plugins.ort.quantize.static.static_plan import make_plan

        if "" not in model.opset:
            return Applicable.no("the model has no standard operators")
        try:
            choices = make_plan(prepared(model, "uint8")).choices
        except OptimError as error:
            return Applicable.no(error.cause)
        if not choices:
            return nothing_to_quantize(
                model, "no Conv, MatMul or Gemm outside of index computations has a constant float32 weight"
            )
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeStaticOptions]:
        """For convolutions the ranges of least error; for products of many rows foreseen ones, outliers smoothed.

        One for convolutions: onnxruntime runs the same kernels for both formats.

        Nothing for a decoder's step: a few rows do not show what ranges the next ones will have.
        """
        from optim_plugins.ort.hardware import fills_channels, multiplies_integers_exactly
        from optim_plugins.ort.kernels import CPU_PROVIDER
        from optim_plugins.ort.measure.sample_rows import FEW_ROWS, rows_at_a_time
        from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

        reduce_range: Literal["saturating", False] = False if multiplies_integers_exactly() else "saturating"
        if "Conv" in {node.op_type for node in model.ir_to_read().graph}:
            fill = fills_channels() and target.made_for == CPU_PROVIDER
            yield QuantizeStaticOptions(
                calibration="mse", correct_bias=True, reduce_range=reduce_range, fill_channels=fill
            )
        elif rows_at_a_time(model, context) >= FEW_ROWS:
            yield QuantizeStaticOptions(
                calibration="foreseen", smoothing=0.8, correct_bias=context.feeds_given, reduce_range=reduce_range
            )

    def keepable(self, model: Model, options: QuantizeStaticOptions) -> list[str]:
        """Every convolution, product and LSTM it would quantize."""
        from optim_plugins.ort.quantize.static.static_graph import prepared
        from optim_plugins.ort.quantize.static.static_plan import make_plan

        graph = prepared(model, options.activations)
        return make_plan(
            graph,
            products=options.products,
            lstms=options.quantizes_lstms,
            activation_products=options.activation_products,
        ).choices

    def kernels(self, options: QuantizeStaticOptions) -> tuple[KernelUse, ...]:
        """Those of the integers or floats that it writes."""
        from optim_plugins.ort import kernel_probes

        precision = {"uint8": kernel_probes.STATIC, "int8": kernel_probes.SIGNED}.get(options.activations)
        operators = ("Conv", "MatMul") if options.products else ("Conv",)
        return (KernelUse(operators, precision),) if precision else ()

    def apply(self, model: Model, options: QuantizeStaticOptions, context: Context) -> PassResult:
        """Measure ranges, then rewrite."""
        from optim_plugins.ort.measure.cut_samples import with_beginnings
        from optim_plugins.ort.quantize.static.static_graph import quantize_graph

        return quantize_graph(model, options, with_beginnings(model, context))
