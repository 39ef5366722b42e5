"""``openvino.exact-integers``: 8-bit products computed in float, on processors whose integer kernels saturate.

A run adds this pass by itself if the original's outputs differ with and without the property
(:mod:`optim_openvino.runtime.saturation`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Context, Model, Pass, PassResult, Role, Target
from optim_openvino.runtime.properties import LOW_PRECISION
from optim_openvino.runtime.saturation import EXACT_INTEGERS, IN_FLOAT, may_saturate

if TYPE_CHECKING:
    from optim import PassOptions


class ExactIntegers(Pass):
    """The property, laid over the session settings."""

    name = EXACT_INTEGERS
    summary = "computes 8-bit products in float if the integer kernels of this processor saturate"
    role = Role.REQUESTED
    before = ("openvino:*",)
    session_only = True
    hardware = "x86-64 without VNNI: on other processors the products are exact already"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has 8-bit products and the kernels of the processor saturate."""
        reason = "the model has no 8-bit products, or they are added in 32 bits here"
        return Applicable(may_saturate(model, target), reason)

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Lay the property over the model's settings."""
        exact = model.with_session(IN_FLOAT)
        if exact.digest == model.digest:
            return PassResult(model, changed=False, notes=("the model has this setting already",))
        note = f"with {LOW_PRECISION}=OFF 8-bit products are computed in float"
        return PassResult(exact, changed=True, notes=(note,), counts={"settings": 1})
