"""Which targets take weights of adapters, and how.

onnxruntime on the CPU and on CUDA takes all ways. Compilers of whole graphs take adapters as ordinary inputs only:
OpenVINO makes constants of inputs that have a default, and QNN fixes all shapes, ranks too.
"""

from __future__ import annotations

from optim import ExitStatus, OptimError, Target
from optim_plugins.adapters.extract.extract_options import ExtractOptions, PackedOptions

OPENVINO, QNN = "openvino", "QNNExecutionProvider"
_ONNXRUNTIME = ("CPUExecutionProvider", "CUDAExecutionProvider")
KNOWN = (*_ONNXRUNTIME, OPENVINO, QNN)


def refusal(options: ExtractOptions, target: Target) -> OptimError | None:
    """Why a target does not take weights of adapters in the way that is asked for; None where it does."""
    place = target.made_for
    if place in _ONNXRUNTIME:
        return None
    if place not in KNOWN:
        return _refused(target, f"nobody has tried whether {place} takes weights with a run", "--target cpu")
    named = PackedOptions if isinstance(options, PackedOptions) else ExtractOptions
    if named is PackedOptions:
        return _refused(target, "MatMulNBits takes its weights as constants there", "--with adapters.extract")
    if options.supply == "external":
        return _refused(target, "a model without its weights cannot be compiled", "supply='inputs',required=true")
    if not options.required:
        cause = "inputs that have a default become constants there, and every adapter would be ignored"
        return _refused(target, cause, "--with adapters.extract:required=true")
    if place == QNN and options.rank is None:
        return _refused(target, "shapes are fixed there, ranks too", "--with adapters.extract:required=true,rank=8")
    return None


def _refused(target: Target, cause: str, fix: str) -> OptimError:
    return OptimError(
        "adapters-not-on-target",
        f"target {target.name} does not take adapters in this way",
        cause,
        fix,
        status=ExitStatus.USAGE,
    )
