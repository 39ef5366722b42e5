"""``openvino.precision``: the whole model in bfloat16 or float16, by a hint to OpenVINO; the graph stays float32.

On x86 onnxruntime computes no bfloat16. OpenVINO does, on processors with AVX512-BF16 or AMX, and keeps in float32 what
it knows to need more: shapes, sums, normalization.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target
from optim_openvino.runtime.hardware import BFLOAT16, FLOAT16
from optim_openvino.runtime.properties import PRECISION, as_session, settings_of

if TYPE_CHECKING:
    from optim_openvino.precision.precision_options import PrecisionOptions

_CAPABILITIES = {"bf16": BFLOAT16, "f16": FLOAT16}
_LONG = {"bf16": "bfloat16", "f16": "float16"}


class Precision(Pass):
    """A precision hint."""

    name = "openvino.precision"
    summary = "lets OpenVINO compute in bfloat16 or float16; the graph does not change"
    options = "optim_openvino.precision.precision_options:PrecisionOptions"
    lossy = True
    session_only = True
    hardware = "a processor with AVX512-BF16, AMX or AVX512-FP16, or a GPU"
    why_none = "OpenVINO computes in float32 alone on this device"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If OpenVINO reports that the device supports bfloat16 or float16."""
        device, _ = settings_of(model, target)
        if not _there(model, target):
            return Applicable.no(f"OpenVINO has neither bfloat16 nor float16 on this {device}")
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[PrecisionOptions]:
        """What the device has; bfloat16 first, whose range is that of float32."""
        from optim_openvino.precision.precision_options import PrecisionOptions

        for name in _there(model, target):
            yield PrecisionOptions(to=name)

    def apply(self, model: Model, options: PrecisionOptions, context: Context) -> PassResult:
        """Set the hint."""
        tuned = model.with_session(as_session({PRECISION: options.to}))
        if tuned.digest == model.digest:
            return PassResult(model, changed=False, notes=(f"it is computed in {_LONG[options.to]} already",))
        return PassResult(tuned, changed=True, counts={"settings": 1})


def _there(model: Model, target: Target) -> tuple[str, ...]:
    from optim_openvino.runtime.core import capabilities

    device, _ = settings_of(model, target)
    found = capabilities(device)
    return tuple(name for name, said in _CAPABILITIES.items() if said in found)
