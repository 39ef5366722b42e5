"""The passes of plugin ``ort``, by what a model is made for. A new pass is one file, and one line here.

A process that only opens a model imports none of them: 12 ms of its processor time become 6, some 30 times in a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optim import Pass, Stage, Target
from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.past.share_past import SharePast
from optim_plugins.ort.precision.convert_bfloat16 import ConvertBfloat16
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.precision.convert_float32 import ConvertFloat32
from optim_plugins.ort.precision.mixed_precision import MixedPrecision
from optim_plugins.ort.prepare.clean import Clean
from optim_plugins.ort.prepare.convert_opset import ConvertOpset
from optim_plugins.ort.prepare.fix_shapes import FixShapes
from optim_plugins.ort.prepare.gemm_to_matmul import GemmToMatMul
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.exact_integers import ExactIntegers
from optim_plugins.ort.quantize.past.quantize_past import QuantizePast
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
from optim_plugins.ort.tune.pack_weights import PackWeights
from optim_plugins.ort.tune.tune_execution import TuneExecution
from optim_plugins.ort.tune.tune_session import TuneSession

_QUANTIZE: tuple[type[Pass], ...] = (GemmToMatMul, QuantizeDynamic, QuantizeStatic, QuantizeWeights)
_PRECISION: tuple[type[Pass], ...] = (ConvertFloat16, ConvertBfloat16, MixedPrecision)
_TUNE: tuple[type[Pass], ...] = (TuneSession, TuneExecution, PackWeights)

_FIRST: tuple[type[Pass], ...] = (FixShapes, ConvertOpset, Clean, FuseConvolution)
"""They write standard operators, which every runtime of ONNX reads."""

_FOR_ALL: tuple[type[Pass], ...] = (FixShapes,)
"""It writes no operator: whatever opens a model opens it with fixed sizes too."""

_BLOCKS: tuple[type[Pass], ...] = (GemmToMatMul, QuantizeWeights)

_OFFERED: Mapping[str, Mapping[Stage, tuple[type[Pass], ...]]] = {
    "CPUExecutionProvider": {
        Stage.FUSE: (ExactIntegers, *_FIRST, ConvertFloat32, SharePast, FuseTransformer),
        Stage.QUANTIZE: (*_QUANTIZE, QuantizePast),
        Stage.CONVERT_PRECISION: _PRECISION,
        Stage.TUNE: _TUNE,
    },
    "CUDAExecutionProvider": {
        Stage.FUSE: (*_FIRST, SharePast, FuseTransformer),
        Stage.QUANTIZE: _BLOCKS,
        Stage.CONVERT_PRECISION: _PRECISION,
        Stage.TUNE: (TuneSession,),
    },
    "OpenVINOExecutionProvider": {Stage.FUSE: _FIRST},
    "TensorrtExecutionProvider": {Stage.FUSE: _FIRST, Stage.CONVERT_PRECISION: _PRECISION},
    "wasm": {
        Stage.FUSE: (*_FIRST, FuseTransformer),
        Stage.QUANTIZE: _QUANTIZE,
        Stage.CONVERT_PRECISION: _PRECISION,
        Stage.TUNE: _TUNE,
    },
    "webgpu": {
        Stage.FUSE: (*_FIRST, FuseTransformer),
        Stage.QUANTIZE: _BLOCKS,
        Stage.CONVERT_PRECISION: (ConvertFloat16, MixedPrecision),
    },
}
"""By the provider that a model is made for: what of ours it reads. Providers with kernels of ONNX Runtime's own
operators take all graphs; TensorRT takes standard operators; settings of a session are read by ONNX Runtime alone, of
which ``wasm`` and ``webgpu`` are providers too."""


def offered(target: Target, stage: Stage) -> Sequence[type[Pass]]:
    """The passes of a stage for a target."""
    others: Mapping[Stage, tuple[type[Pass], ...]] = {Stage.FUSE: _FIRST if target.reads_onnx else _FOR_ALL}
    return _OFFERED.get(target.made_for, others).get(stage, ())
