"""Our own passes held to what the author's kit asks of everybody's."""

from __future__ import annotations

from typing import ClassVar

import pytest
from ort_models import DATA, apply, export

from optim import Stage, Target
from optim.onnx import describe_model
from optim_plugins.ort.fuse.convolution.fuse_convolution import FuseConvolution
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.past.share_past import SharePast
from optim_plugins.ort.precision.convert_bfloat16 import ConvertBfloat16
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.precision.convert_float32 import ConvertFloat32
from optim_plugins.ort.prepare.clean import Clean
from optim_plugins.ort.prepare.convert_opset import ConvertOpset
from optim_plugins.ort.prepare.gemm_to_matmul import GemmToMatMul
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.past.quantize_past import QuantizePast
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
from optim_plugins.ort.tune.pack_weights import PackWeights
from optim_plugins.ort.tune.tune_execution import TuneExecution
from optim_plugins.ort.tune.tune_session import TuneSession
from optim_testing import PassConformance, models

pytestmark = pytest.mark.slow

WIDE = pytest.mark.wide
"""For other options of a pass that is here already: tests of the pass say what they compute."""


class OnMlp(PassConformance):
    @pytest.fixture
    def model_path(self, tmp_path):
        return models.mlp(tmp_path)


class OnEncoder(PassConformance):
    @pytest.fixture
    def model_path(self, tmp_path):
        return models.encoder(tmp_path)


class TestClean(OnMlp):
    max_drift = 1e-6

    @pytest.fixture
    def pass_class(self):
        return Clean


class TestFuseTransformer(OnEncoder):
    max_drift = 1e-5

    @pytest.fixture
    def pass_class(self):
        return FuseTransformer


class TestConvertFloat32(PassConformance):
    max_drift = 5e-3

    @pytest.fixture
    def model_path(self, tmp_path):
        return apply(ConvertBfloat16, describe_model(models.mlp(tmp_path)), tmp_path, weights_only=True).model.path

    @pytest.fixture
    def pass_class(self):
        return ConvertFloat32


class TestSharePast(PassConformance):
    max_drift = 1e-5

    @pytest.fixture
    def model_path(self):
        return DATA / "llama.dynamo.onnx"

    @pytest.fixture
    def pass_class(self):
        return SharePast


class TestQuantizePast(PassConformance):
    max_drift = 0.05
    stage = Stage.QUANTIZE

    @pytest.fixture
    def model_path(self, tmp_path):
        return apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model.path

    @pytest.fixture
    def pass_class(self):
        return QuantizePast


class TestFuseConvolution(PassConformance):
    max_drift = 1e-5

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.convnet(tmp_path)

    @pytest.fixture
    def pass_class(self):
        return FuseConvolution


class TestGemmToMatMul(OnMlp):
    max_drift = 1e-6
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return GemmToMatMul


class TestQuantizeDynamic(PassConformance):
    max_drift = 0.05
    stage = Stage.QUANTIZE

    @pytest.fixture
    def model_path(self, tmp_path):
        return models.mlp(tmp_path, width=512)

    @pytest.fixture
    def pass_class(self):
        return QuantizeDynamic


class TestQuantizeStatic(TestQuantizeDynamic):
    @pytest.fixture
    def pass_class(self):
        return QuantizeStatic


@WIDE
class TestQuantizeStaticPairs(TestQuantizeStatic):
    options: ClassVar = {
        "format": "qdq",
        "smoothing": 0.5,
        "calibration": "mse",
        "correct_bias": True,
        "fill_channels": True,
    }


class TestQuantizeWeights(TestQuantizeDynamic):
    @pytest.fixture
    def pass_class(self):
        return QuantizeWeights


@WIDE
class TestQuantizeWeightsOfFourBits(TestQuantizeWeights):
    max_drift = 0.2
    options: ClassVar = {"bits": 4, "block_size": 16, "symmetric": False, "method": "gptq"}


class TestConvertFloat16(OnEncoder):
    max_drift = 0.01
    stage = Stage.CONVERT_PRECISION

    @pytest.fixture
    def pass_class(self):
        return ConvertFloat16


@WIDE
class TestConvertFloat16Weights(TestConvertFloat16):
    options: ClassVar = {"weights_only": True}


class TestConvertBfloat16(OnEncoder):
    max_drift = 0.05
    options: ClassVar = {"weights_only": True}  # the runtime has no kernel for the rest on a processor
    stage = Stage.CONVERT_PRECISION

    @pytest.fixture
    def pass_class(self):
        return ConvertBfloat16


class TestConvertOpset(OnMlp):
    max_drift = 1e-6
    options: ClassVar = {"to": 21}
    opset_may_rise = True
    fires_on_everything = True
    stage = Stage.QUANTIZE

    @pytest.fixture
    def pass_class(self):
        return ConvertOpset


class TestTuneSession(OnMlp):
    max_drift = 1e-5
    options: ClassVar = {"intra_op_num_threads": 1}
    fires_on_everything = True
    stage = Stage.TUNE

    @pytest.fixture
    def pass_class(self):
        return TuneSession


class TestTuneExecution(OnMlp):
    max_drift = 1e-5
    options: ClassVar = {"memory_pattern": False}
    fires_on_everything = True
    stage = Stage.TUNE

    @pytest.fixture
    def pass_class(self):
        return TuneExecution


class TestPackWeights(OnMlp):
    max_drift = 1e-5
    fires_on_everything = True
    stage = Stage.TUNE

    @pytest.fixture
    def pass_class(self):
        return PackWeights

    def test_it_is_for_onnxruntime_on_the_processor_alone(self, tmp_path):
        model = describe_model(models.mlp(tmp_path))
        for target in (Target("web", "web", "wasm"), Target("cuda", "ort", "CUDAExecutionProvider")):
            assert "packs weights for CPUExecutionProvider" in PackWeights().applicable(model, target).reason
