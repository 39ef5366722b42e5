"""``inc.quantize-static``: static int8 quantization by neural-compressor, ranges from calibration samples.

Before::

    y = MatMul(a, W)

After (QDQ)::

    y = MatMul(DequantizeLinear(QuantizeLinear(a)), DequantizeLinear(W_q))

SmoothQuant first divides ``a`` by s and multiplies the rows of W by it, s = max|a|^alpha / max|W|^(1 - alpha)
(https://arxiv.org/abs/2211.10438).

Some options of neural-compressor 3.7.1 are not offered. With ``fast_bias_correction``, ``weight_correction`` and
``excluded_precisions`` it makes the same file for ONNX models on the CPU. ``domain`` chooses nothing but the
optimizations of the graph, which ``graph_optimization`` names. Backends for CUDA, TensorRT and DirectML need an
onnxruntime for GPUs in its environment, which is made for the CPU. It has no ``diagnosis`` any more: ``optim
sensitivity`` says which node drifts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from optim import Context, Model, PassResult, Target
from optim_inc.product_quantizer import ProductQuantizer

if TYPE_CHECKING:
    from optim_inc.options import QuantizeStaticOptions

_BEST_ALPHA = 0.8
"""Of least drift on MiniLM."""


class QuantizeStatic(ProductQuantizer):
    """Static int8 quantization."""

    name = "inc.quantize-static"
    summary = "lets neural-compressor quantize to 8 bits with calibrated ranges, with SmoothQuant on request"
    options = "optim_inc.options:QuantizeStaticOptions"
    calibrates = True

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeStaticOptions]:
        """SmoothQuant first: outliers of transformers break plain ranges."""
        from optim_inc.options import QuantizeStaticOptions

        yield QuantizeStaticOptions(smooth_quant=True, alpha=_BEST_ALPHA)
        yield QuantizeStaticOptions()

    def apply(self, model: Model, options: QuantizeStaticOptions, context: Context) -> PassResult:
        """Write the calibration samples to files, and let the worker quantize."""
        from optim_inc.quantizing import quantize

        return quantize(
            model,
            context,
            _config(options),
            options.keep,
            samples=options.samples,
            alike=options.smooth_quant or options.calibration != "minmax",
        )


def _config(options: QuantizeStaticOptions) -> dict[str, Any]:
    from optim_inc.quantizing import IN_FLOAT, graph_recipe, reduce_range

    recipes: dict[str, Any] = {
        "first_conv_or_matmul_quantization": not options.first_last_in_float,
        "last_conv_or_matmul_quantization": not options.first_last_in_float,
        "gemm_to_matmul": options.gemm_to_matmul,
        "add_qdq_pair_to_weight": options.qdq_at_weights,
        "dedicated_qdq_pair": options.qdq_for_each_consumer,
        **graph_recipe(options.graph_optimization),
    }
    if options.smooth_quant:
        recipes |= {"smooth_quant": True, "smooth_quant_args": {"alpha": options.alpha}}
    if options.format == "QDQ" and not options.product_outputs:
        recipes["optypes_to_exclude_output_quant"] = ["MatMul", "Gemm"]
    # Activations are uint8: int8 ones are up to six times slower on x86-64.
    types = {
        "activation": {"dtype": ["uint8"], "algorithm": [options.calibration]},
        "weight": {"dtype": ["int8"], "granularity": ["per_channel" if options.per_channel else "per_tensor"]},
    }
    quantized = "|".join(options.operators)
    return {
        "approach": "static",
        "quant_format": "QDQ" if options.format == "QDQ" else "default",
        "recipes": recipes,
        "op_type_dict": {quantized: types, f"(?!({quantized})$).*": IN_FLOAT},
        "quant_level": options.quant_level,
        "reduce_range": reduce_range(options.weight_bits),
        "calibration_sampling_size": [options.samples],
    }
