"""``ort.pack-weights``: weights packed once and mapped from disk, where it counts how soon a model opens.

Opening a model, the runtime rewrites its graph and lays weights out anew for the kernels of this processor. Both can
be written once; what opens the model later maps them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, SessionConfig, Target
from optim.model import PACKED_WEIGHTS
from optim_plugins.ort.kernels import CPU_PROVIDER

if TYPE_CHECKING:
    from optim import PassOptions


class PackWeights(Pass):
    """Weights as the runtime packs them for this processor, kept on the disk."""

    name = "ort.pack-weights"
    summary = "packs weights once for this processor and release of the runtime, so that the model opens faster"
    before = ("ort.tune-session", "ort.tune-execution")
    session_only = True
    goals = ("startup",)
    hardware = "a processor: onnxruntime packs weights for its CPU provider"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If onnxruntime runs the model on the CPU, without adapters and without libraries of operators."""
        if target.backend != "ort" or target.provider != CPU_PROVIDER or target.made_for != CPU_PROVIDER:
            return Applicable.no(f"onnxruntime packs weights for {CPU_PROVIDER}; the target runs on {target.made_for}")
        if model.adapters:
            return Applicable.no("the weights of its adapters are supplied when it is opened")
        from optim.onnx import operator_libraries

        if libraries := operator_libraries(model.opset):
            return Applicable.no(f"it has operators of {libraries[0]}, which cannot be kept so")
        return APPLICABLE

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Say so in the settings: what opens the model packs it where that was not done."""
        if PACKED_WEIGHTS in model.session.session_config:
            return PassResult(model, changed=False, notes=("its weights are packed already",))
        packed = model.with_session(SessionConfig({}, {PACKED_WEIGHTS: "1"}))
        note = "packed weights are for one machine and one onnxruntime: any other packs its own when it first opens it"
        return PassResult(packed, changed=True, notes=(note,), counts={"settings": 1})
