"""What all quantizers of neural-compressor have in common: products with a constant weight, in integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from optim import APPLICABLE, Applicable, Model, Pass, Target

PRODUCTS = ("MatMul", "Gemm", "Conv")

_PER_CHANNEL_QDQ = 13
"""The opset in which QuantizeLinear and DequantizeLinear got an axis."""


class ProductQuantizer(Pass):
    """Quantizes products that have a constant weight.

    Attributes:
        operators: that it quantizes.
        least_opset: in which the operators that it writes came.
    """

    operators: ClassVar[tuple[str, ...]] = PRODUCTS
    least_opset: ClassVar[int] = _PER_CHANNEL_QDQ
    lossy = True
    after = ("ort.gemm-to-matmul",)
    alternatives = "quantization"
    makes = "int8"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If a product has a constant weight, the opset has the operators, and the environment is installed."""
        from optim.isolation import find_environment
        from optim_inc.environment import ISOLATION

        opset = model.opset.get("", 1)
        if find_environment(ISOLATION) is None:
            return Applicable.no("it has no environment yet: optim plugins install inc")
        if any(not one.required for one in model.adapters):
            return Applicable.no(
                "neural-compressor makes constants of inputs for adapters that have defaults; "
                "adapters.extract:required=true makes inputs without them"
            )
        if opset < self.least_opset:
            return Applicable.no(f"the model has opset {opset}, the operators it makes came with {self.least_opset}")
        if not quantizable(model, self.operators):
            return Applicable.no(f"no {', '.join(self.operators)} has a constant weight")
        return APPLICABLE

    def keepable(self, model: Model, options: Any) -> list[str]:
        """Every product with a constant weight."""
        return quantizable(model, self.operators)


def quantizable(model: Model, operators: Sequence[str]) -> list[str]:
    """Names of the nodes with a constant weight, in graph order."""
    return [
        str(node.name)
        for node in model.ir().graph
        if node.domain in ("", "ai.onnx") and node.op_type in operators
        if any(value and value.is_initializer() for value in node.inputs[1:2])
    ]
