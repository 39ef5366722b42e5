"""``ort.exact-integers``: 8-bit products added in 32 bits, on processors whose fast kernels add pairs of them in 16.

On x86 without VNNI onnxruntime computes a model with 8-bit weights (Q/DQ, QLinearConv, QLinearMatMul, MatMulInteger and
others) by the instruction vpmaddubsw, which saturates (:mod:`optim_plugins.ort.quantize.saturation`). Its session entry
``session.x64quantprecision`` makes unsigned integers of the weights, whose kernels add in 32 bits and take longer. The
entry works at the graph optimization levels ``extended`` and ``all``.

A run adds this pass by itself if the original's outputs differ with and without the entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, SessionConfig, Target
from optim.backend import ExactSettings
from optim_plugins.ort.kernels import CPU_PROVIDER

if TYPE_CHECKING:
    from optim import PassOptions

_EQUIVALENT = (
    SessionConfig({"graph_optimization_level": "ORT_ENABLE_EXTENDED"}),
    SessionConfig({"intra_op_num_threads": 1}),
)
"""At lower levels the entry does nothing."""

_CAUSE = (
    "onnxruntime's integer kernels for x86 without VNNI add pairs of 8-bit products in 16 bits, and large sums saturate"
)


class ExactIntegers(Pass):
    """The entry, laid over the session settings."""

    name = "ort.exact-integers"
    summary = "8-bit products of a quantized model added in 32 bits, where this processor's kernels saturate"
    role = Role.REQUESTED
    before = ("ort:*",)
    session_only = True
    hardware = "x86-64 without VNNI: on other processors the products are exact already"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where a model has 8-bit products and the kernels of the processor saturate."""
        from optim_plugins.ort.hardware import multiplies_integers_exactly
        from optim_plugins.ort.quantize.quantized_already import multiplies_integers

        if target.made_for != CPU_PROVIDER:
            return Applicable.no(f"the setting is of {CPU_PROVIDER}; the target runs on {target.made_for}")
        if multiplies_integers_exactly():
            return Applicable.no("this processor adds 8-bit products in 32 bits")
        if not multiplies_integers(model):
            return Applicable.no("the model has no 8-bit products")
        return APPLICABLE

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Lay it over the model's settings."""
        if _is_set(model):
            return PassResult(model, changed=False, notes=("the model has this setting already",))
        from optim.onnx import EXACT_INTEGERS

        note = "with session.x64quantprecision=1 8-bit products are added in 32 bits, by slower kernels"
        return PassResult(model.with_session(EXACT_INTEGERS), changed=True, notes=(note,), counts={"settings": 1})


def exact_settings(model: Model) -> ExactSettings | None:
    """Settings without which this processor may saturate in a model; None where it cannot."""
    from optim.onnx import EXACT_INTEGERS
    from optim_plugins.ort.hardware import multiplies_integers_exactly
    from optim_plugins.ort.quantize.quantized_already import multiplies_integers

    if multiplies_integers_exactly() or _is_set(model) or not multiplies_integers(model):
        return None
    return ExactSettings(EXACT_INTEGERS, _EQUIVALENT, ExactIntegers.name, _CAUSE)


def _is_set(model: Model) -> bool:
    from optim.onnx import EXACT_INTEGERS

    return model.session.updated(EXACT_INTEGERS) == model.session
