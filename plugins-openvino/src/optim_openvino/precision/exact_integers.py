"""``openvino.exact-integers``: 8-bit products computed in float, on processors whose integer kernels saturate.

On x86 without VNNI OpenVINO adds pairs of 8-bit products in 16 bits, as its page on saturation says. Its property
``LP_TRANSFORMS_MODE=OFF`` leaves every Q/DQ pair and every integer operator in float32, which cannot saturate and may
take longer.

A run adds this pass by itself if the original's outputs differ with and without the property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Context, Model, Pass, PassResult, Role, Target
from optim.processor import ExactSettings, this_processor
from optim_openvino.runtime.hardware import ADDS_IN_32_BITS
from optim_openvino.runtime.properties import LOW_PRECISION, THREADS, as_session, settings_of

if TYPE_CHECKING:
    from optim import PassOptions

_INTEGERS = ("DequantizeLinear", "DynamicQuantize", "QLinear", "MatMulInteger", "ConvInteger")
"""How operators begin that multiply 8-bit integers, or of which OpenVINO makes such products."""

_IN_FLOAT = as_session({LOW_PRECISION: "OFF"})
_CAUSE = (
    "OpenVINO's integer kernels for x86 without VNNI add pairs of 8-bit products in 16 bits, and large sums saturate"
)


class ExactIntegers(Pass):
    """The property, laid over the session settings."""

    name = "openvino.exact-integers"
    summary = "8-bit products of a quantized model in float, where this processor's integer kernels saturate"
    role = Role.REQUESTED
    before = ("openvino:*",)
    session_only = True
    hardware = "x86-64 without VNNI: on other processors the products are exact already"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Where a model has 8-bit products and the kernels of the processor saturate."""
        reason = "the model has no 8-bit products, or they are added in 32 bits here"
        return Applicable(_may_saturate(model, target), reason)

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Lay the property over the model's settings."""
        exact = model.with_session(_IN_FLOAT)
        if exact.digest == model.digest:
            return PassResult(model, changed=False, notes=("the model has this setting already",))
        note = f"with {LOW_PRECISION}=OFF 8-bit products are computed in float"
        return PassResult(exact, changed=True, notes=(note,), counts={"settings": 1})


def exact_settings(model: Model, target: Target) -> ExactSettings | None:
    """The property without which this processor may saturate in a model; None if it cannot."""
    if model.session.updated(_IN_FLOAT) == model.session or not _may_saturate(model, target):
        return None
    return ExactSettings(_IN_FLOAT, (as_session({THREADS: "1"}),), ExactIntegers.name, _CAUSE)


def _may_saturate(model: Model, target: Target) -> bool:
    from optim.onnx import operator_counts

    device, _ = settings_of(model, target)
    if not device.startswith("CPU") or ADDS_IN_32_BITS.value(this_processor()):
        return False
    return any(name.rpartition(":")[2].startswith(_INTEGERS) for name in operator_counts(model.path))
