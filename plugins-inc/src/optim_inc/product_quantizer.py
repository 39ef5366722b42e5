"""What all quantizers of neural-compressor have in common: products with a constant weight, in integers."""

from __future__ import annotations

from typing import Any, ClassVar

from optim import Applicable, Model, Pass, Target

PER_CHANNEL_QDQ = 13
"""The opset in which QuantizeLinear and DequantizeLinear got an axis."""


PRODUCTS = ("MatMul", "Gemm", "Conv")


class ProductQuantizer(Pass):
    """Quantizes products that have a constant weight.

    Attributes:
        operators: that it quantizes.
        least_opset: in which the operators that it writes came.
    """

    operators: ClassVar[tuple[str, ...]] = PRODUCTS
    least_opset: ClassVar[int] = PER_CHANNEL_QDQ
    lossy = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    makes = "int8"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where a product has a constant weight, and the opset has the operators."""
        del target
        from optim_inc.quantizing import applicable

        return applicable(model, self.operators, opset=self.least_opset)

    def keepable(self, model: Model, options: Any) -> list[str]:
        """Every product with a constant weight."""
        from optim_inc.quantizing import quantizable

        del options
        return quantizable(model, self.operators)
