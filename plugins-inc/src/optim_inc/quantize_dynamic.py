"""``inc.quantize-dynamic``: dynamic int8 quantization by neural-compressor.

Before::

    y = MatMul(a, W)

After::

    a_q, a_scale, a_zero = DynamicQuantizeLinear(a)
    y = Mul(Cast(MatMulInteger(a_q, W_q, a_zero, W_zero)), Mul(a_scale, W_scale))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim import Context, Model, PassResult
from optim_inc.product_quantizer import ProductQuantizer

if TYPE_CHECKING:
    from optim_inc.options import QuantizeDynamicOptions


class QuantizeDynamic(ProductQuantizer):
    """Dynamic int8 quantization."""

    name = "inc.quantize-dynamic"
    summary = "lets neural-compressor quantize products to 8 bits; each run computes the range of activations"
    options = "optim_inc.options:QuantizeDynamicOptions"
    least_opset = 11  # DynamicQuantizeLinear

    def apply(self, model: Model, options: QuantizeDynamicOptions, context: Context) -> PassResult:
        """Let the worker quantize."""
        from optim_inc.quantizing import IN_FLOAT, graph_recipe, quantize, reduce_range

        config: dict[str, Any] = {
            "approach": "dynamic",
            "recipes": graph_recipe(options.graph_optimization),
            "reduce_range": reduce_range(options.weight_bits),
        }
        if options.operators:
            config["op_type_dict"] = {f"(?!({'|'.join(options.operators)})$).*": IN_FLOAT}
        return quantize(model, context, config, options.keep)
