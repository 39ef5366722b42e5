"""``inc.quantize-dynamic``: dynamic int8 quantization by neural-compressor.

Before::

    y = MatMul(a, W)

After::

    a_q, a_scale, a_zero = DynamicQuantizeLinear(a)
    y = Mul(Cast(MatMulInteger(a_q, W_q, a_zero, W_zero)), Mul(a_scale, W_scale))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from optim_inc.options import QuantizeDynamicOptions

_LEAST_OPSET = 11
"""DynamicQuantizeLinear."""


class QuantizeDynamic(Pass):
    """Dynamic int8 quantization."""

    name = "inc.quantize-dynamic"
    summary = "neural-compressor: products in 8-bit integers, activations quantized while running"
    options = "optim_inc.options:QuantizeDynamicOptions"
    lossy = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    makes = "int8"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where a product has a constant weight, and the opset quantizes while running."""
        del target
        from optim_inc.quantizing import applicable

        return applicable(model, opset=_LEAST_OPSET)

    def keepable(self, model: Model, options: QuantizeDynamicOptions) -> list[str]:
        """Every product with a constant weight."""
        from optim_inc.quantizing import quantizable

        del options
        return quantizable(model)

    def apply(self, model: Model, options: QuantizeDynamicOptions, context: Context) -> PassResult:
        """Let the worker quantize."""
        from optim_inc.quantizing import quantize

        return quantize(model, context, {"approach": "dynamic"}, options.keep)
