"""The plugin ``openvino``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Pass, Target, hookimpl
from optim.layout import Layout
from optim_openvino.deploy.layout import OpenVino
from optim_openvino.deploy.save_ir import SaveIr
from optim_openvino.precision.exact_integers import ExactIntegers
from optim_openvino.precision.precision import Precision
from optim_openvino.quantize.compress_weights import CompressWeights
from optim_openvino.quantize.quantize import Quantize
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.properties import RUNTIME
from optim_openvino.runtime.targets import TARGET
from optim_openvino.tune.tune import Tune

OPTIM_HOOK_API = 1


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """Exact 8-bit products, where the processor's saturate."""
    return (ExactIntegers,) if _is_ours(target) else ()


@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    """Integers, by NNCF."""
    return (Quantize, CompressWeights) if _is_ours(target) else ()


@hookimpl
def optim_convert_precision(target: Target) -> Sequence[type[Pass]]:
    """bfloat16 and float16, by a hint."""
    return (Precision,) if _is_ours(target) else ()


@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    """How the runtime is set."""
    return (Tune,) if _is_ours(target) else ()


@hookimpl
def optim_post_process(target: Target) -> Sequence[type[Pass]]:
    """OpenVINO's own format, on request."""
    return (SaveIr,) if _is_ours(target) else ()


def _is_ours(target: Target) -> bool:
    return target.made_for == RUNTIME


@hookimpl
def optim_targets() -> Sequence[Target]:
    """OpenVINO on the processor; on another device by a setting."""
    return (TARGET,)


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """OpenVINO."""
    return (OpenVinoBackend,)


@hookimpl
def optim_layouts() -> Sequence[type[Layout]]:
    """OpenVINO's own format, for programs that read no ONNX."""
    return (OpenVino,)
