"""``ort.mixed-precision``: a 16-bit type for products and what lies between them, float32 for what is delicate.

Before::

    x -> LayerNormalization -> MatMul(w) -> Gelu -> MatMul(v) -> Softmax -> y

After::

    x -> LayerNormalization -> Cast -> MatMul(w16) -> Gelu -> MatMul(v16) -> Cast -> Softmax -> y

``ort.convert-float16`` begins with all nodes and leaves some out. This pass begins with safe nodes, as automatic mixed
precision in training does: sums, exponentials, normalizations and divisions stay float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from optim_plugins.ort.precision.precision_options import MixedPrecisionOptions


class MixedPrecision(Pass):
    """Products in 16 bits, delicate operators in 32."""

    name = "ort.mixed-precision"
    summary = "computes products in float16 or bfloat16, and sensitive operators in float32"
    options = "optim_plugins.ort.precision.precision_options:MixedPrecisionOptions"
    lossy = True
    after = ("ort.convert-float16", "ort.convert-bfloat16")
    alternatives = "precision"
    hardware = "a GPU, or a processor and an onnxruntime with float16 kernels"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If an operator that takes time can run in float16."""
        from optim_plugins.ort.precision.convert_precision import can_convert
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return can_convert(model, target, Narrow.FLOAT16)

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where it is fast."""
        from optim_plugins.ort.precision.convert_precision import is_fast
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return is_fast(model, target, Narrow.FLOAT16)

    def keepable(self, model: Model, options: MixedPrecisionOptions) -> list[str]:
        """Every node that it would convert, except those that only move numbers: these follow."""
        from optim_plugins.ort.precision.convert_precision import convertible
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return convertible(model, Narrow(options.dtype), options.float32_operators)

    def apply(self, model: Model, options: MixedPrecisionOptions, context: Context) -> PassResult:
        """Convert every node that fits, is not delicate, and is not kept."""
        from optim_plugins.ort.precision.convert_precision import convert
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        kept = options.float32_operators
        return convert(model, context, Narrow(options.dtype), keep=options.keep, keep_operators=kept)
