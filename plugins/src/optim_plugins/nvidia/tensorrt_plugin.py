"""The plugin ``tensorrt``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Pass, Target, hookimpl
from optim.providers import TENSORRT
from optim_plugins.nvidia.gpu.backends import TensorrtBackend, TensorrtOfflineBackend
from optim_plugins.nvidia.gpu.targets import tensorrt_targets
from optim_plugins.nvidia.tensorrt.engine import Engine
from optim_plugins.nvidia.tensorrt.prepare import Prepare
from optim_plugins.nvidia.tensorrt.quantize import Quantize
from optim_plugins.nvidia.tensorrt.tune_provider import TuneProvider

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets() -> Sequence[Target]:
    """TensorRT, and preparing for it without a GPU."""
    return tensorrt_targets()


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """TensorRT, and the CPU in its place."""
    return (TensorrtBackend, TensorrtOfflineBackend)


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """A graph of operators that TensorRT reads."""
    return (Prepare,) if _is_ours(target) else ()


@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    """Integers as TensorRT wants them."""
    return (Quantize,) if _is_ours(target) else ()


@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    """Options of the TensorRT provider."""
    return (TuneProvider,) if _is_ours(target) else ()


@hookimpl
def optim_post_process(target: Target) -> Sequence[type[Pass]]:
    """Engines inside the model."""
    return (Engine,) if _is_ours(target) else ()


def _is_ours(target: Target) -> bool:
    return target.made_for == TENSORRT
