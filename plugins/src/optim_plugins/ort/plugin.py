"""The plugin ``ort``: what it offers. A new pass is one file, and one line here."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from optim import Backend, Pass, Target, hookimpl
from optim.onnx.backend import OnnxRuntimeBackend
from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.precision.convert_bfloat16 import ConvertBfloat16
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.precision.mixed_precision import MixedPrecision
from optim_plugins.ort.prepare.clean import Clean
from optim_plugins.ort.prepare.convert_opset import ConvertOpset
from optim_plugins.ort.prepare.fix_shapes import FixShapes
from optim_plugins.ort.prepare.gemm_to_matmul import GemmToMatMul
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
from optim_plugins.ort.tune.tune_execution import TuneExecution
from optim_plugins.ort.tune.tune_session import TuneSession

OPTIM_HOOK_API = 1

_FUSE: tuple[type[Pass], ...] = (FixShapes, ConvertOpset, Clean, FuseConvolution, FuseTransformer)
_QUANTIZE: tuple[type[Pass], ...] = (GemmToMatMul, QuantizeDynamic, QuantizeStatic, QuantizeWeights)
_PRECISION: tuple[type[Pass], ...] = (ConvertFloat16, ConvertBfloat16, MixedPrecision)
_TUNE: tuple[type[Pass], ...] = (TuneSession, TuneExecution)


def _runtime_missing() -> str | None:
    """The reason why ONNX Runtime cannot be used, without importing it."""
    found = importlib.util.find_spec("onnxruntime") is not None
    return None if found else "onnxruntime is not installed: pip install 'optim-core[cpu]'"


CPU = Target(name="cpu", backend="ort", provider="CPUExecutionProvider", device="CPU", probe=_runtime_missing)


class OrtBackend(OnnxRuntimeBackend):
    """ONNX Runtime with the provider that the target names."""

    name = "ort"


@hookimpl
def optim_targets() -> Sequence[Target]:
    """The processor."""
    return (CPU,)


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """ONNX Runtime with any provider."""
    return (OrtBackend,)


@hookimpl
def optim_fuse(target: Target) -> Sequence[type[Pass]]:
    """Rewrites for ONNX Runtime."""
    return _FUSE if target.backend == "ort" else ()


@hookimpl
def optim_quantize(target: Target) -> Sequence[type[Pass]]:
    """Quantization for the processor."""
    return _QUANTIZE if target.backend == "ort" and target.provider == CPU.provider else ()


@hookimpl
def optim_convert_precision(target: Target) -> Sequence[type[Pass]]:
    """Types of 16 bits for ONNX Runtime."""
    return _PRECISION if target.backend == "ort" else ()


@hookimpl
def optim_tune(target: Target) -> Sequence[type[Pass]]:
    """How the runtime is set."""
    return _TUNE if target.backend == "ort" else ()
