"""``tensorrt.quantize``: 8-bit integers as TensorRT computes them.

Before::

    y = Relu(Conv(x, W, b))      p = Add(MatMul(a, V), c)

After, every zero point 0 and W and V with a scale for each output channel::

    y = Relu(Conv(DQ(Q(x)), DQ(W_q), b))          whatever reads y reads DQ(Q(y))
    p = Add(MatMul(DQ(Q(a)), DQ(V_q)), c)

TensorRT takes symmetric integers only, and biases in float: it puts them into the accumulator itself. The graph is
written by ``ort.quantize-static``'s writer of pairs. Where pairs help differs from engine to engine, so the search
tries several placements, and repairs with ``keep``.
Placement: https://docs.nvidia.com/deeplearning/tensorrt/latest/inference-library/work-quantized-types.html
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.nvidia.tensorrt.quantize_options import QuantizeOptions
    from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

_INTEGERS = "int8"


class Quantize(Pass):
    """Symmetric 8-bit pairs."""

    name = "tensorrt.quantize"
    summary = "convolutions and matrix products in symmetric 8-bit integers, ranges of activations fixed on samples"
    options = "optim_plugins.nvidia.tensorrt.quantize_options:QuantizeOptions"
    lossy = True
    alternatives = "quantization"
    makes = "int8"
    hardware = "a GPU of NVIDIA's with 8-bit tensor cores (Turing or later)"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where there is a convolution or a matrix product with a constant weight."""
        del target
        from optim.errors import OptimError
        from optim_plugins.ort.quantize.quantized_already import nothing_to_quantize
        from optim_plugins.ort.quantize.static.static_graph import prepared
        from optim_plugins.ort.quantize.static.static_plan import make_plan

        try:
            choices = make_plan(prepared(model, _INTEGERS)).choices
        except OptimError as error:
            return Applicable.no(error.cause)
        if choices:
            return APPLICABLE
        return nothing_to_quantize(model, "no Conv, MatMul or Gemm has a constant float32 weight")

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeOptions]:
        """Convolutions alone and with products; for models of products outliers smoothed, then whole ranges."""
        del target, context
        from optim_plugins.nvidia.tensorrt.quantize_options import QuantizeOptions

        operators = {node.op_type for node in model.ir().graph}
        if "Conv" in operators:
            yield QuantizeOptions(calibration="mse")
            if operators & {"MatMul", "Gemm"}:
                yield QuantizeOptions(calibration="mse", products=False)
        else:
            yield QuantizeOptions(smoothing=0.8)
            yield QuantizeOptions()

    def keepable(self, model: Model, options: QuantizeOptions) -> list[str]:
        """Every convolution and product it would quantize."""
        from optim_plugins.ort.quantize.static.static_graph import prepared
        from optim_plugins.ort.quantize.static.static_plan import make_plan

        return make_plan(prepared(model, _INTEGERS), products=options.products).choices

    def apply(self, model: Model, options: QuantizeOptions, context: Context) -> PassResult:
        """Measure ranges, then write pairs."""
        from optim_plugins.ort.quantize.static.static_graph import quantize_graph

        return quantize_graph(model, _static(options), context)


def _static(options: QuantizeOptions) -> QuantizeStaticOptions:
    from optim_plugins.ort.quantize.static.quantize_static_options import QuantizeStaticOptions

    return QuantizeStaticOptions(
        format="qdq",
        activations=_INTEGERS,
        weights=_INTEGERS,
        symmetric=True,
        biases="float32",
        calibration=options.calibration,
        percentile=options.percentile,
        per_channel=options.per_channel,
        products=options.products,
        smoothing=options.smoothing,
        keep=options.keep,
    )
