"""``ort.convert-bfloat16``: the model in bfloat16, wherever there is a kernel.

As ``ort.convert-float16``, with the range of float32 and 8 bits of precision: nothing overflows, and drift is about
eight times that of float16. Inputs and outputs stay float32, since numpy has no bfloat16 to feed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.precision.precision_options import ConvertBfloat16Options


class ConvertBfloat16(Pass):
    """Everything that can be in bfloat16."""

    name = "ort.convert-bfloat16"
    summary = "converts to bfloat16 wherever the provider has a kernel"
    options = "optim_plugins.ort.precision.precision_options:ConvertBfloat16Options"
    lossy = True
    after = ("ort.convert-float16",)
    alternatives = "precision"
    makes = "bfloat16"
    hardware = "a GPU of NVIDIA's Ampere or later; elsewhere it only halves the size"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If a weight can be stored in bfloat16; the counts show how much is computed in it."""
        from optim_plugins.ort.precision.convert_precision import can_store
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return can_store(model, Narrow.BFLOAT16)

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where it is fast, or where size is what counts."""
        from optim_plugins.ort.precision.convert_precision import is_fast
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return APPLICABLE if goal == "size" else is_fast(model, target, Narrow.BFLOAT16)

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[ConvertBfloat16Options]:
        """Everything first; where that is slow, the weights alone."""
        from optim_plugins.ort.precision.convert_precision import is_fast
        from optim_plugins.ort.precision.precision_options import ConvertBfloat16Options
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        yield ConvertBfloat16Options(weights_only=not is_fast(model, target, Narrow.BFLOAT16))

    def keepable(self, model: Model, options: ConvertBfloat16Options) -> list[str]:
        """Every node that it would convert, except those that only move numbers: these follow."""
        from optim_plugins.ort.precision.convert_precision import convertible, weight_readers
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return weight_readers(model) if options.weights_only else convertible(model, Narrow.BFLOAT16)

    def apply(self, model: Model, options: ConvertBfloat16Options, context: Context) -> PassResult:
        """Convert every node that there is a kernel for and that is not kept."""
        from optim_plugins.ort.precision.convert_precision import convert, convert_weights
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        if options.weights_only:
            return convert_weights(model, context, Narrow.BFLOAT16, options.keep)
        return convert(model, context, Narrow.BFLOAT16, keep=options.keep)
