"""``ort.convert-float32``: a 16-bit model in float32, which fusions and quantization need.

Before::

    x(float16) -> MatMul(w as float16) -> LayerNormalization -> y(float16)

After::

    x(float16) -> Cast -> MatMul(w as float32) -> LayerNormalization -> Cast -> y(float16)

Without kernels in float16, onnxruntime computes such a model in float32 between casts anyway. In a float32 graph,
passes fuse its attention and quantize its weights as in any other model. Weights keep their numbers; what lies between
is no longer rounded to 16 bits, so the outputs differ from the original's by what that rounding did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target

if TYPE_CHECKING:
    from optim import PassOptions


class ConvertFloat32(Pass):
    """Everything that is in 16 bits in float32, but for inputs and outputs."""

    name = "ort.convert-float32"
    summary = "converts a float16 or bfloat16 model to float32, because fusions and quantization read float32"
    role = Role.ENABLE
    lossy = True
    before = ("ort.clean", "ort.fuse-convolution", "ort.share-past", "ort.fuse-transformer")
    hardware = "a processor whose onnxruntime has no float16 kernels; elsewhere 16 bits are faster"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has 16-bit values, and every operator that reads or computes them supports float32."""
        from optim_plugins.ort.precision.widened_graph import objection

        reason = objection(model.ir_to_read())
        return Applicable.no(reason) if reason else APPLICABLE

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where the provider would compute in float32 anyway."""
        from optim_plugins.ort.precision.convert_precision import is_fast
        from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow

        if is_fast(model, target, Narrow.FLOAT16):
            return Applicable.no(f"{target.made_for} has float16 kernels on this machine for most of its products")
        return APPLICABLE

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Widen weights, constants and casts."""
        from optim_plugins.ort.precision.widened_graph import objection, widen

        graph = model.ir()
        if reason := objection(graph):
            return PassResult(model, changed=False, notes=(reason,))
        counts = widen(graph)
        return PassResult(context.save(graph, model), changed=True, counts=counts)
