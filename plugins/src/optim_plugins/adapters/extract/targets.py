"""Which targets take weights of adapters, and how.

onnxruntime on the CPU and on CUDA takes all ways. Compilers of whole graphs take adapters as ordinary inputs only:
OpenVINO makes constants of inputs that have a default, and QNN fixes all shapes, ranks too.
"""

from __future__ import annotations

from optim import OptimError, Target
from optim_plugins.adapters.extract.extract_options import ExtractOptions, PackedOptions

OPENVINO, QNN = "openvino", "QNNExecutionProvider"
_ONNXRUNTIME = ("CPUExecutionProvider", "CUDAExecutionProvider")


def refusal(options: ExtractOptions, target: Target) -> OptimError | None:
    """Why a target does not take weights of adapters in the way that is asked for; None where it does."""
    place = target.made_for
    if place in _ONNXRUNTIME:
        return None
    if place not in (OPENVINO, QNN):
        return _refused(target, f"not tested: whether {place} accepts weights with a run", "--target cpu")
    fix = "--with adapters.extract:required=true" + (",rank=8" if place == QNN else "")
    if isinstance(options, PackedOptions):
        return _refused(target, "MatMulNBits takes its weights as constants there", fix)
    if options.supply == "external":
        return _refused(target, "a model without its weights cannot be compiled", fix)
    if not options.required:
        return _refused(target, "inputs that have a default become constants there: adapters would be ignored", fix)
    if place == QNN and options.rank is None:
        return _refused(target, "shapes are fixed there, ranks too", fix)
    return None


def _refused(target: Target, cause: str, fix: str) -> OptimError:
    return OptimError.usage(
        "adapters-not-on-target", f"target {target.name} does not take adapters in this way", cause, fix
    )
