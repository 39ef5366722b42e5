"""``inc.quantize-weights``: weights of products in 4 bits by neural-compressor.

Before::

    y = MatMul(a, W)

After::

    y = com.microsoft.MatMulNBits(a, W_q, scales, zero_points)

RTN rounds to nearest. GPTQ (https://arxiv.org/abs/2210.17323) lets later columns make up for the error of earlier
ones. AWQ (https://arxiv.org/abs/2306.00978) scales up the channels that activations are large in.

TEQ is not offered, because its name is taken for RTN without a word. A group of a whole column is not offered, because
ONNX Runtime takes groups of 16 to 256.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from optim import Context, Model, PassResult, Target
from optim_inc.product_quantizer import ProductQuantizer

if TYPE_CHECKING:
    from optim_inc.options import QuantizeWeightsOptions

_BITS = 4
"""Other widths are only simulated: their weights stay in float32."""


class QuantizeWeights(ProductQuantizer):
    """Weights in 4 bits."""

    name = "inc.quantize-weights"
    summary = "lets neural-compressor store the weights of products in 4 bits, in groups, by RTN, GPTQ or AWQ"
    options = "optim_inc.options:QuantizeWeightsOptions"
    makes = "int4"
    operators = ("MatMul",)
    least_opset = 11

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[QuantizeWeightsOptions]:
        """GPTQ first; rounding to nearest in case that there is too little to calibrate on."""
        from optim_inc.options import QuantizeWeightsOptions

        yield QuantizeWeightsOptions(algorithm="GPTQ")
        yield QuantizeWeightsOptions()

    def apply(self, model: Model, options: QuantizeWeightsOptions, context: Context) -> PassResult:
        """Let the worker quantize."""
        from optim_inc.quantizing import quantize

        samples = 0 if options.algorithm == "RTN" else options.samples
        odd = [] if options.symmetric else _odd_groups(model, options.group_size)
        result = quantize(model, context, _config(options), (*options.keep, *odd), samples=samples, alike=True)
        notes = (f"left in float for an odd number of groups: {', '.join(odd)}",) if odd else ()
        return replace(result, notes=(*result.notes, *notes))


def _odd_groups(model: Model, group_size: int) -> list[str]:
    """Products whose zero points neural-compressor packs across columns, which the runtime refuses."""
    return [
        str(node.name)
        for node in model.ir().graph
        if node.op_type == "MatMul" and (weight := node.inputs[1]) is not None and weight.const_value is not None
        if -(-weight.const_value.shape.numpy()[-2] // group_size) % 2
    ]


def _config(options: QuantizeWeightsOptions) -> dict[str, Any]:
    weight = {
        "bits": [_BITS],
        "group_size": [options.group_size],
        "scheme": ["sym" if options.symmetric else "asym"],
        "algorithm": [options.algorithm],
    }
    return {
        "approach": "weight_only",
        "op_type_dict": {".*": {"weight": weight}},
        "recipes": {f"{options.algorithm.lower()}_args": {"accuracy_level": options.accuracy_level}},
        "calibration_sampling_size": [options.samples],
    }
