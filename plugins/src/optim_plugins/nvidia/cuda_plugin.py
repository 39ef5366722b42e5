"""The plugin ``cuda``: what it offers."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Pass, Target, hookimpl
from optim.providers import CUDA
from optim_plugins.nvidia.cuda.fuse import Fuse
from optim_plugins.nvidia.cuda.tune_provider import TuneProvider
from optim_plugins.nvidia.gpu.backends import CudaBackend, CudaOfflineBackend
from optim_plugins.nvidia.gpu.targets import cuda_targets

OPTIM_HOOK_API = 1


@hookimpl
def optim_targets() -> Sequence[Target]:
    """CUDA, and preparing for it without a GPU."""
    return cuda_targets()


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """CUDA, and the CPU in its place."""
    return (CudaBackend, CudaOfflineBackend)


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """Operators that ONNX Runtime has for CUDA alone."""
    return (Fuse,) if target.made_for == CUDA else ()


@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    """Options of the CUDA provider."""
    return (TuneProvider,) if target.made_for == CUDA else ()
