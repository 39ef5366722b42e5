"""``ort.mixed-precision``, ``ort.convert-bfloat16``, and what both know of kernels and types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from ort_models import (
    CPU,
    EXPORTS,
    apply,
    build,
    context,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    proto,
    random_weight,
    relative_l2,
)

from optim import Context, Model, Target
from optim.options import parse_options
from optim.providers import CUDA, TENSORRT
from optim_plugins.ort import kernels
from optim_plugins.ort.graph.operator_types import signature
from optim_plugins.ort.kernels import CPU_PROVIDER, has_kernel, is_listed
from optim_plugins.ort.precision.convert_bfloat16 import ConvertBfloat16
from optim_plugins.ort.precision.mixed_precision import MixedPrecision
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow, bounded, fit, narrowed

GPU = Target("gpu", "ort", "TensorrtExecutionProvider")
"""A provider whose kernels onnxruntime does not list here, as it is with one that compiles whole graphs."""
_FEEDS = {"x": random_weight(5, 64, seed=9)}


def _layers(folder: Path, opset: int = 17) -> Model:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        helper.make_node("Relu", ["p"], ["r"], name="between"),
        helper.make_node("MatMul", ["r", "w"], ["q"], name="two"),
        helper.make_node("Softmax", ["q"], ["s"], axis=1, name="delicate"),
        helper.make_node("MatMul", ["s", "w"], ["y"], name="three"),
    ]
    return build(folder, nodes, {"w": random_weight(64, 64) / 8}, {"x": ["n", 64]}, {"y": ["n", 64]}, opset=opset)


def _for_gpu(folder: Path) -> Context:
    asked = context(folder)
    asked.target = GPU
    return asked


def test_delicate_operators_stay_float32_and_products_do_not(tmp_path: Path) -> None:
    model = _layers(tmp_path)
    result = apply(MixedPrecision, model, tmp_path)
    assert operators(result.model) == ["Cast", "MatMul", "Relu", "MatMul", "Cast", "Softmax", "Cast", "MatMul", "Cast"]
    assert result.counts["nodes in float16"] == 4
    assert "1 node: Softmax is kept" in result.notes[-1]
    assert 1e-6 < relative_l2(model, result.model, _FEEDS) < 3e-3


def test_which_operators_are_delicate_can_be_said(tmp_path: Path) -> None:
    model = _layers(tmp_path)
    result = apply(MixedPrecision, model, tmp_path, float32_operators=("Relu",), keep=("three",))
    assert operators(result.model) == ["Cast", "MatMul", "Cast", "Relu", "Cast", "MatMul", "Softmax", "Cast", "MatMul"]
    names = MixedPrecision().keepable(model, parse_options(MixedPrecision, {}))
    assert names == ["one", "between", "two", "three"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPORTS)
def test_exports_stay_valid_and_nearer_than_the_budget(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    result = apply(MixedPrecision, model, tmp_path)
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert 1e-6 < relative_l2(model, result.model, feeds_for(name)) < 3e-3


def test_bfloat16_on_a_provider_that_has_it_is_a_valid_graph_that_computes_the_same(tmp_path: Path) -> None:
    model = _layers(tmp_path)
    result = ConvertBfloat16().apply(model, parse_options(ConvertBfloat16, {}), _for_gpu(tmp_path))
    graph = onnx.load(result.model.path)
    onnx.checker.check_model(graph, full_check=True)
    assert operators(result.model) == ["Cast", "MatMul", "Relu", "MatMul", "Softmax", "MatMul", "Cast"]
    assert {value.data_type for value in graph.graph.initializer} == {TensorProto.BFLOAT16}
    assert names_and_shapes(result.model) == names_and_shapes(model)
    expected = ReferenceEvaluator(onnx.load(model.path)).run(None, _FEEDS)[0]
    got = ReferenceEvaluator(graph).run(None, _FEEDS)[0]
    assert 1e-4 < np.linalg.norm(got - expected) / np.linalg.norm(expected) < 0.05


def test_bfloat16_without_kernels_says_so_and_can_still_store_weights(tmp_path: Path) -> None:
    model = _layers(tmp_path)
    if has_kernel(CPU_PROVIDER, "", "MatMul", 13, {"T": "tensor(bfloat16)"}):
        pytest.skip("this onnxruntime multiplies bfloat16 on the processor")
    result = apply(ConvertBfloat16, model, tmp_path)
    assert not result.changed
    assert "has no bfloat16 kernel for MatMul on CPUExecutionProvider" in result.notes[-1]
    assert "known not to have a fast kernel" in ConvertBfloat16().worth_trying(model, CPU, "latency").reason
    assert [one.weights_only for one in ConvertBfloat16().candidates(model, CPU, context(tmp_path))] == [True]
    stored = apply(ConvertBfloat16, model, tmp_path, weights_only=True)
    assert {value.data_type for value in proto(stored.model).graph.initializer} == {TensorProto.BFLOAT16}
    assert 1e-4 < relative_l2(model, stored.model, _FEEDS) < 0.02


def test_bfloat16_needs_opset_13(tmp_path: Path) -> None:
    said = ConvertBfloat16().applicable(_layers(tmp_path, opset=12), CPU)
    assert said.reason == "the model has opset 12, bfloat16 needs 13: --with ort.convert-opset"


def test_kernels_are_those_that_onnxruntime_lists() -> None:
    assert is_listed(CPU_PROVIDER)
    assert not is_listed("NoSuchExecutionProvider")
    assert has_kernel(CPU_PROVIDER, "", "MatMul", 13, {"T": "tensor(float)"})
    assert not has_kernel(CPU_PROVIDER, "", "MatMul", 13, {"T": "tensor(string)"})
    assert not has_kernel(CPU_PROVIDER, "", "NoSuchOperator", 13, {})


def test_kernels_of_cuda_are_known_without_a_gpu_and_tensorrt_has_none() -> None:
    half, brain = {"T": "tensor(float16)"}, {"T": "tensor(bfloat16)"}
    assert has_kernel(CUDA, "", "MatMul", 13, half) and has_kernel(
        CUDA, "com.microsoft", "SkipLayerNormalization", 1, half
    )
    assert has_kernel(CUDA, "", "MatMul", 13, brain)
    assert has_kernel(CUDA, "", "InstanceNormalization", 6, half)
    assert not has_kernel(CUDA, "", "InstanceNormalization", 6, brain)
    assert is_listed(CUDA)
    assert not is_listed(TENSORRT)


def test_a_build_for_gpus_is_never_asked_for_the_kernels_of_all_providers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with SIGSEGV where TensorRT's library is missing."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    def ends() -> None:
        raise AssertionError("the process would have ended here")

    if not hasattr(runtime, "get_registered_ep_kernel_defs"):
        pytest.skip("this onnxruntime lists no provider alone")
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [TENSORRT, CUDA, CPU_PROVIDER])
    monkeypatch.setattr(runtime, "get_all_opkernel_def", ends)
    providers = {provider for provider, *_ in kernels._listed()}
    assert providers == {CPU_PROVIDER}


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_types_are_those_of_the_operators_definition(domain: str) -> None:
    operator = "SkipLayerNormalization" if domain else "LayerNormalization"
    found = signature(ir.node(operator, [], domain=domain), {"": 17, "com.microsoft": 1})
    assert found is not None
    assert found.takes(found.input(0), ir.DataType.FLOAT16)
    assert found.output(0) == found.input(0)
    assert not found.takes(found.output(1), ir.DataType.FLOAT16)
    assert signature(ir.node("NoSuch", [], domain=domain), {"": 17, "com.microsoft": 1}) is None


def test_numbers_beyond_the_range_are_symbols_or_too_large() -> None:
    array = np.array([-3e38, -1e9, 3e38, np.inf, 7e4, 1.0], np.float32)
    found = fit(array, Narrow.FLOAT16)
    assert (found.symbolic, found.beyond) == (3, 1)
    assert not found.is_close
    assert fit(array[:4], Narrow.FLOAT16).is_close
    assert fit(array, Narrow.BFLOAT16).is_close
    assert list(bounded(array, 100.0)) == [-100, -100, 100, np.inf, 100, 1]


def test_what_is_too_small_becomes_zero_or_the_smallest_number() -> None:
    tiny = np.array([1e-12, -1e-12, 0.0, 1.0], np.float32)
    assert not narrowed(tiny, Narrow.FLOAT16, 1.0)[:3].any()
    assert list(narrowed(tiny, Narrow.FLOAT16, 1.0, lift=True)) == [2.0**-24, -(2.0**-24), 0, 1]
    assert not fit(tiny[:2], Narrow.FLOAT16).is_close
