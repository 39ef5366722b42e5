"""Every kernel that the CPU offers opens, and passes name kernels that are offered."""

from __future__ import annotations

import onnxruntime
import pytest

from optim.options import options_class
from optim_plugins.ort import kernel_probes
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights


@pytest.fixture(scope="module")
def probes():
    return kernel_probes.probes()


def test_each_shape_has_its_float32(probes):
    floats = {(one.operator, one.shape) for one in probes if one.precision == "float32"}
    assert {(one.operator, one.shape) for one in probes} == floats
    assert len(floats) == 4


def test_each_kernel_opens_but_for_precisions_that_a_build_lacks(probes):
    refused = set()
    for one in probes:
        try:
            onnxruntime.InferenceSession(one.model, providers=["CPUExecutionProvider"])
        except Exception:
            refused.add(one.precision)
    assert refused <= {"float16", "int4-blocks", "int8-blocks"}


@pytest.mark.parametrize("kind", [QuantizeDynamic, QuantizeStatic, QuantizeWeights, ConvertFloat16])
def test_what_a_pass_says_is_offered_and_in_the_tables(kind, probes):
    (use,) = kind().kernels(options_class(kind)())
    offered = {(one.operator, one.precision) for one in probes}
    known = {(one.operator, one.precision) for one in kernel_probes.known()}
    assert {(operator, use.precision) for operator in use.operators} <= offered & known
