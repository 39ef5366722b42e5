"""The plugin ``ort``: what it offers. Its passes lie in ``offered.py``."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, KernelProbe, KernelRatio, Model, Pass, Stage, Target, hookimpl
from optim.onnx import OnnxRuntimeBackend
from optim.processor import Assumption, ExactSettings
from optim_plugins.ort.cpu_target import CPU
from optim_plugins.ort.provider_target import PROVIDER

OPTIM_HOOK_API = 1


class OrtBackend(OnnxRuntimeBackend):
    """ONNX Runtime with the provider that the target names."""

    name = "ort"

    def exact_settings(self, model: Model, target: Target) -> ExactSettings | None:
        """For models with 8-bit products on processors that add them in 16 bits."""
        if target.made_for != CPU.provider:
            return None
        from optim_plugins.ort.quantize.exact_integers import exact_settings

        return exact_settings(model)

    def assumptions(self, target: Target) -> Sequence[Assumption]:
        """Of the CPU provider's kernels."""
        if target.made_for != CPU.provider:
            return ()
        from optim_plugins.ort.hardware import TABLE

        return TABLE

    def kernel_probes(self, target: Target) -> Sequence[KernelProbe]:
        """Products and convolutions of the CPU."""
        from optim_plugins.ort import kernel_probes

        return kernel_probes.probes() if target.made_for == CPU.provider else ()

    def known_kernels(self, target: Target) -> Sequence[KernelRatio]:
        """Of processors of this kind."""
        from optim_plugins.ort import kernel_probes

        return kernel_probes.known() if target.made_for == CPU.provider else ()


@hookimpl
def optim_targets() -> Sequence[Target]:
    """The processor, and any execution provider by its name."""
    return CPU, PROVIDER


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """ONNX Runtime with any provider."""
    return (OrtBackend,)


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """Rewrites for ONNX Runtime."""
    return _offered(target, Stage.FUSE)


@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    """Quantization that the provider has kernels for."""
    return _offered(target, Stage.QUANTIZE)


@hookimpl
def optim_convert_precision(target: Target) -> Sequence[type[Pass]]:
    """Types of 16 bits for ONNX Runtime."""
    return _offered(target, Stage.CONVERT_PRECISION)


@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    """How the runtime is set."""
    return _offered(target, Stage.TUNE)


def _offered(target: Target, stage: Stage) -> Sequence[type[Pass]]:
    from optim_plugins.ort.offered import offered

    return offered(target, stage)
