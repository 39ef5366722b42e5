"""8-bit products that saturate in OpenVINO's kernels, and the property that computes them in float.

On x86 without VNNI OpenVINO adds pairs of 8-bit products in 16 bits, as its page on saturation says. Its property
``LP_TRANSFORMS_MODE=OFF`` leaves every Q/DQ pair and every integer operator in float32, which cannot saturate and may
take longer.
"""

from __future__ import annotations

from optim import Model, Target
from optim.processor import ExactSettings, this_processor
from optim_openvino.runtime.hardware import ADDS_IN_32_BITS
from optim_openvino.runtime.properties import LOW_PRECISION, THREADS, as_session, settings_of

EXACT_INTEGERS = "openvino.exact-integers"
"""The pass that lays the property over a model."""

IN_FLOAT = as_session({LOW_PRECISION: "OFF"})

_INTEGERS = ("DequantizeLinear", "DynamicQuantize", "QLinear", "MatMulInteger", "ConvInteger")
"""How operators begin that multiply 8-bit integers, or of which OpenVINO makes such products."""

_CAUSE = (
    "OpenVINO's integer kernels for x86 without VNNI add pairs of 8-bit products in 16 bits, and large sums saturate"
)


def exact_settings(model: Model, target: Target) -> ExactSettings | None:
    """The property without which this processor may saturate in a model; None if it cannot."""
    if model.session.updated(IN_FLOAT) == model.session or not may_saturate(model, target):
        return None
    return ExactSettings(IN_FLOAT, (as_session({THREADS: "1"}),), EXACT_INTEGERS, _CAUSE)


def may_saturate(model: Model, target: Target) -> bool:
    """Whether a model has 8-bit products, and the kernels of this processor saturate."""
    from optim.onnx import operator_counts

    device, _ = settings_of(model, target)
    if not device.startswith("CPU") or ADDS_IN_32_BITS.value(this_processor()):
        return False
    return any(name.rpartition(":")[2].startswith(_INTEGERS) for name in operator_counts(model.path))
