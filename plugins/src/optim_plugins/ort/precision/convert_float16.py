"""``ort.convert-float16``: the model in float16, wherever there is a kernel and the numbers fit.

Before::

    x -> MatMul(w) -> Softmax -> y                                       float32

After, with inputs and outputs kept::

    x -> Cast -> MatMul(w as float16) -> Softmax -> Cast -> y

Nodes stay in float32, with Casts between, if they exceed 65504 on the samples, compute indices or angles, or have
constants that rounding destroys. The pass brings constants beyond the range (masks of -3e38) into it. Types come from
the operators' own definitions and from the kernels that onnxruntime lists, so the graph is valid on any provider.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, KernelUse, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optim_plugins.ort.precision.precision_options import ConvertFloat16Options


class ConvertFloat16(Pass):
    """Everything that can be in float16."""

    name = "ort.convert-float16"
    summary = "converts to float16 wherever the provider has a kernel and the numbers fit"
    options = "optim_plugins.ort.precision.precision_options:ConvertFloat16Options"
    lossy = True
    alternatives = "precision"
    makes = "float16"
    hardware = "a GPU, or a processor and an onnxruntime with float16 kernels; elsewhere it only halves the size"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If an operator that takes time can run in float16, or a weight can be stored in it."""
        from optim_plugins.ort.precision.convert_precision import can_convert
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return can_convert(model, target, Narrow.FLOAT16)

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where it is fast, or where size is what counts."""
        from optim_plugins.ort.precision.convert_precision import is_fast
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return APPLICABLE if goal == "size" else is_fast(model, target, Narrow.FLOAT16)

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[ConvertFloat16Options]:
        """Everything first; where that is slow, the weights alone."""
        from optim_plugins.ort.precision.convert_precision import is_fast
        from optim_plugins.ort.precision.precision_options import ConvertFloat16Options
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        yield ConvertFloat16Options(io="keep", weights_only=not is_fast(model, target, Narrow.FLOAT16))

    def keepable(self, model: Model, options: ConvertFloat16Options) -> list[str]:
        """Every node that it would convert, except those that only move numbers: these follow."""
        from optim_plugins.ort.precision.convert_precision import convertible, weight_readers
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        return weight_readers(model) if options.weights_only else convertible(model, Narrow.FLOAT16)

    def kernels(self, options: object) -> tuple[KernelUse, ...]:
        """Those of the integers or floats that it writes."""
        from optim_plugins.ort import kernel_probes

        return (KernelUse(("MatMul", "Conv"), kernel_probes.FLOAT16),)

    def apply(self, model: Model, options: ConvertFloat16Options, context: Context) -> PassResult:
        """Convert every node that fits and is not kept."""
        from optim_plugins.ort.precision.convert_precision import convert, convert_weights
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        if options.weights_only:
            return convert_weights(model, context, Narrow.FLOAT16, options.keep)
        return convert(model, context, Narrow.FLOAT16, keep=options.keep, io=options.io == "convert")
