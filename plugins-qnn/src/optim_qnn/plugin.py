"""The plugin ``qnn``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Command, Pass, Target, hookimpl
from optim_qnn.compile.context_binary import ContextBinary
from optim_qnn.htp.backend import OfflineBackend, QnnBackend
from optim_qnn.htp.targets import make_targets
from optim_qnn.precision.convert_float16 import ConvertFloat16
from optim_qnn.preprocess.preprocess import Preprocess
from optim_qnn.quantize.quantize import Quantize

OPTIM_HOOK_API = 1

_BACKENDS = (QnnBackend, OfflineBackend)


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """What makes way to HTP."""
    return (Preprocess,) if _is_ours(target) else ()


@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    """Integers for HTP."""
    return (Quantize,) if _is_ours(target) else ()


@hookimpl
def optim_convert_precision(target: Target) -> Sequence[type[Pass]]:
    """float16, where the chip has it."""
    return (ConvertFloat16,) if _is_ours(target) else ()


@hookimpl
def optim_post_process(target: Target) -> Sequence[type[Pass]]:
    """Compiling."""
    return (ContextBinary,) if _is_ours(target) else ()


def _is_ours(target: Target) -> bool:
    return target.backend in (QnnBackend.name, OfflineBackend.name)


@hookimpl
def optim_targets() -> Sequence[Target]:
    """HTP, and preparing for it where QNN is missing."""
    return make_targets()


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """HTP through onnxruntime-qnn, and the CPU in its place."""
    return _BACKENDS


@hookimpl
def optim_commands() -> Sequence[Command]:
    """``optim qnn``."""
    return (Command("optim_qnn.support.command:qnn", "Check and compile models for Qualcomm QNN."),)
