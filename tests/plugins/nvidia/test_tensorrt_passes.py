"""Passes of plugin ``tensorrt``: graphs run on the CPU, options by their names. No engine is built here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import apply, build, context, export, feeds_for, operators, random_weight, relative_l2, run

from optim import Model, OptimError, SessionConfig, TensorInfo
from optim.onnx import open_session
from optim.options import parse_options
from optim.providers import TENSORRT
from optim_plugins.nvidia.gpu.device import GpuDevice
from optim_plugins.nvidia.gpu.targets import tensorrt_targets
from optim_plugins.nvidia.tensorrt.engine import Engine, written_to
from optim_plugins.nvidia.tensorrt.four_bit_weights import in_blocks
from optim_plugins.nvidia.tensorrt.prepare import Prepare
from optim_plugins.nvidia.tensorrt.profiles import profile_options
from optim_plugins.nvidia.tensorrt.quantize import Quantize
from optim_plugins.nvidia.tensorrt.tune_provider import TuneProvider, provider_options
from optim_plugins.nvidia.tensorrt.tune_provider_options import TuneProviderOptions
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16

GPU, OFFLINE = tensorrt_targets()
X = {"x": [2, 3, 8]}
_OWN = {
    "Gelu": (["x"], {}),
    "BiasGelu": (["x", "bias"], {}),
    "FastGelu": (["x", "bias"], {}),
    "QuickGelu": (["x"], {"alpha": 1.5}),
    "SkipLayerNormalization": (["x", "other", "gamma", "beta", "bias"], {"epsilon": 1e-4}),
    "SkipSimplifiedLayerNormalization": (["x", "other", "gamma", "bias"], {"epsilon": 1e-4}),
    "FusedMatMul": (["x", "other"], {"transB": 1, "alpha": 0.5}),
}


def _own(tmp_path: Path, operator: str) -> Model:
    inputs, attributes = _OWN[operator]
    weights = {
        "bias": random_weight(8),
        "gamma": random_weight(8),
        "beta": random_weight(8),
        "other": random_weight(2, 3, 8),
    }
    node = helper.make_node(operator, inputs, ["y"], domain="com.microsoft", **attributes)
    used = {name: array for name, array in weights.items() if name in inputs}
    return build(tmp_path, [node], used, X, {"y": [2, 3, 3 if operator == "FusedMatMul" else 8]})


@pytest.mark.parametrize("operator", _OWN)
def test_operators_of_onnxruntimes_own_are_written_in_standard_ones(tmp_path: Path, operator: str) -> None:
    model = _own(tmp_path, operator)
    result = apply(Prepare, model, tmp_path)
    assert result.counts == {operator: 1}
    graph = onnx.load(result.model.path)
    assert all(node.domain in ("", "ai.onnx") for node in graph.graph.node)
    assert relative_l2(model, result.model, {"x": random_weight(2, 3, 8)}) < 1e-5
    assert not apply(Prepare, result.model, tmp_path).changed


def test_what_has_no_standard_form_is_left_and_named(tmp_path: Path) -> None:
    fused = apply(FuseTransformer, export("bert.dynamo", tmp_path), tmp_path, leave_out=["attention"]).model
    result = apply(Prepare, fused, tmp_path)
    assert "left to CUDA, because TensorRT does not have them: MultiHeadAttention" in result.notes
    assert "BiasGelu" in result.counts and "SkipLayerNormalization" in result.counts
    assert relative_l2(fused, result.model, feeds_for("bert.dynamo", batch=2, sequence=6)) < 1e-5


@pytest.mark.parametrize("name", ["convnet.dynamo", "bert.dynamo"])
def test_integers_are_symmetric_by_channel_and_biases_stay_in_float(tmp_path: Path, name: str) -> None:
    model = export(name, tmp_path)
    sizes = {} if name.startswith("convnet") else {"batch": 2, "sequence": 16}
    samples = [feeds_for(name, **sizes) for _ in range(2)]
    result = apply(Quantize, model, tmp_path, samples)
    graph = onnx.load(result.model.path)
    stored = {one.name: numpy_helper.to_array(one) for one in graph.graph.initializer}
    zeros = [stored[node.input[2]] for node in graph.graph.node if node.op_type.endswith("uantizeLinear")]
    assert zeros
    assert all(zero.dtype == np.int8 and not zero.any() for zero in zeros)
    assert any(zero.ndim == 1 for zero in zeros)
    assert relative_l2(model, result.model, samples[0]) < 0.1
    assert result.model.session.disabled_optimizers == ("WeightBiasQuantization",)
    keep = Quantize().keepable(model, parse_options(Quantize, {}))
    assert keep
    kept = apply(Quantize, model, tmp_path, samples, keep=keep)
    assert not kept.changed


@pytest.mark.parametrize("name", ["convnet.dynamo", "bert.dynamo"])
def test_floats_of_8_bits_stand_between_the_same_pairs(tmp_path: Path, name: str) -> None:
    model = export(name, tmp_path)
    samples = [feeds_for(name, **({} if name.startswith("convnet") else {"batch": 2, "sequence": 16}))]
    result = apply(Quantize, model, tmp_path, samples, format="float8")
    graph = onnx.load(result.model.path)
    onnx.checker.check_model(graph)
    stored = {one.name: one for one in graph.graph.initializer}
    zeros = [stored[node.input[2]] for node in graph.graph.node if node.op_type.endswith("uantizeLinear")]
    assert zeros
    assert {zero.data_type for zero in zeros} == {TensorProto.FLOAT8E4M3FN}
    expected = run(model, samples[0])
    session = open_session(result.model.path, result.model.session)
    got = dict(zip(expected, session.run(list(expected), dict(samples[0])), strict=True))
    gaps = [np.linalg.norm(got[n] - array) / np.linalg.norm(array) for n, array in expected.items()]
    assert 1e-3 < max(gaps) < 0.15  # 3 bits of mantissa


def test_float8_is_refused_on_a_gpu_without_it_and_proposed_on_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = export("convnet.dynamo", tmp_path)
    device = GpuDevice("GPU", 1 << 33, (8, 6), "1.0", (13, 0))
    monkeypatch.setattr("optim_plugins.nvidia.gpu.device.find_device", lambda index=0: device)
    given = context(tmp_path, [feeds_for("convnet.dynamo")])
    assert {one.format for one in Quantize().candidates(model, GPU, given)} == {"int8"}
    given = replace(context(tmp_path, [feeds_for("convnet.dynamo")]), target=GPU)
    with pytest.raises(OptimError) as caught:
        Quantize().apply(model, parse_options(Quantize, {"format": "float8"}), given)
    assert caught.value.reference == "no-float8"
    assert "capability 8.6" in caught.value.cause


@pytest.mark.parametrize("operator", ["MatMul", "Gemm", "Transpose"])
def test_weights_of_4_bits_lie_in_blocks_along_the_rows(tmp_path: Path, operator: str) -> None:
    wide = random_weight(256, 48)
    turned = {"transB": 1} if operator == "Gemm" else {}
    behind = operator == "Transpose"  # as exporters write torch's Linear
    nodes = [
        *([helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0])] if behind else []),
        helper.make_node("Gemm" if turned else "MatMul", ["x", "wt" if behind else "w"], ["h"], "wide", **turned),
        helper.make_node("MatMul", ["h", "odd"], ["y"], "narrow"),
    ]
    weights = {"w": np.ascontiguousarray(wide.T) if turned or behind else wide, "odd": random_weight(48, 96)}
    model = build(tmp_path, nodes, weights, {"x": [4, 256]}, {"y": [4, 96]})
    result = apply(Quantize, model, tmp_path, format="int4-weights")
    graph = onnx.load(result.model.path)
    onnx.checker.check_model(graph)
    stored = {one.name: one for one in graph.graph.initializer}
    (node,) = [one for one in graph.graph.node if one.op_type == "DequantizeLinear"]
    integers, scale = (stored[name] for name in node.input)
    assert integers.data_type == TensorProto.INT4
    assert list(integers.dims) == ([48, 256] if turned else [256, 48])
    assert list(scale.dims) == ([48, 2] if turned else [2, 48])
    assert "w" not in stored, "nothing reads the floats any more"
    assert (numpy_helper.to_array(scale) > 0).all()
    assert any("no multiple of a block: narrow" in note for note in result.notes)
    assert 0.02 < relative_l2(model, result.model, {"x": random_weight(4, 256)}) < 0.15
    kept = apply(Quantize, model, tmp_path, format="int4-weights", keep=["wide"])
    assert not kept.changed
    assert Quantize().keepable(model, parse_options(Quantize, {"format": "int4-weights"})) == ["wide"]


def test_scales_of_blocks_are_searched() -> None:
    columns = np.random.default_rng(0).standard_normal((8, 256)).astype(np.float32)
    integers, scale = in_blocks(columns, 128)
    restored = integers.reshape(8, 2, 128) * scale[..., None]
    plain = np.abs(columns.reshape(8, 2, 128)).max(axis=2, keepdims=True) / 7
    nearest = np.rint(columns.reshape(8, 2, 128) / plain) * plain
    assert (
        np.square(restored - columns.reshape(8, 2, 128)).sum()
        < 0.95 * np.square(nearest - columns.reshape(8, 2, 128)).sum()
    )
    assert np.abs(integers).max() == 7


def test_profiles_hold_every_shape_of_the_samples(tmp_path: Path) -> None:
    model = export("bert.dynamo", tmp_path)
    samples = [feeds_for("bert.dynamo", batch=1, sequence=size) for size in (8, 16, 16, 64)]
    result = apply(TuneProvider, model, tmp_path, samples, precision="float16")
    options = result.model.session.provider_options[TENSORRT]
    first = model.inputs[0].name
    assert [options[f"trt_profile_{one}_shapes"].split(",")[0] for one in ("min", "opt", "max")] == [
        f"{first}:1x8",
        f"{first}:1x16",
        f"{first}:1x64",
    ]
    assert options["trt_fp16_enable"] == "True"
    assert "no size below or above" in result.notes[0]
    assert profile_options(model.inputs, [])[1].startswith("no profile")
    odd = [replace(info, name=f"a/{info.name}") for info in model.inputs]
    feeds = {info.name: samples[0][info.name.removeprefix("a/")] for info in odd}
    assert "cannot hold" in profile_options(odd, [feeds])[1]
    empty = {info.name: np.zeros((1, 0), np.int64) for info in model.inputs}
    assert "size 0" in profile_options(model.inputs, [empty])[1]


def test_the_sizes_of_a_profile_fit_together(tmp_path: Path) -> None:
    """A mask over all tokens is as long as the past and the new ones, at the least sizes and at the greatest."""
    inputs = [TensorInfo("ids", "int64", ("b", "new")), TensorInfo("past", "float32", ("b", "past"))]
    inputs += [TensorInfo("mask", "int64", ("b", "all"))]
    sizes = [(8, 5), (1, 40), (1, 30), (1, 30)]
    rows = [{"ids": np.zeros((1, n)), "past": np.zeros((1, p)), "mask": np.zeros((1, n + p))} for n, p in sizes]
    options, _ = profile_options(inputs, rows)
    assert options["trt_profile_min_shapes"] == "ids:1x1,past:1x5,mask:1x6"
    assert options["trt_profile_opt_shapes"] == "ids:1x1,past:1x30,mask:1x31"
    assert options["trt_profile_max_shapes"] == "ids:1x8,past:1x40,mask:1x48"


@pytest.mark.parametrize("mask", [128, "all"])
def test_a_size_that_never_varies_has_no_range_though_two_others_add_up_to_it(mask: int | str) -> None:
    inputs = [TensorInfo("past", "float32", ("b", "past")), TensorInfo("ids", "int64", ("b", "new"))]
    inputs += [TensorInfo("mask", "int64", ("b", mask)), TensorInfo("image", "float32", (1, 96, "h", "w"))]
    rows = [
        {
            "past": np.zeros((1, p)),
            "ids": np.zeros((1, n)),
            "mask": np.zeros((1, 128)),
            "image": np.zeros((1, 96, h, w)),
        }
        for p, n, h, w in ((100, 28, 32, 64), (120, 8, 64, 32))
    ]
    options, _ = profile_options(inputs, rows)
    assert options["trt_profile_min_shapes"] == "past:1x100,ids:1x8,mask:1x128,image:1x96x32x32"
    assert options["trt_profile_max_shapes"] == "past:1x120,ids:1x28,mask:1x128,image:1x96x64x64"


def test_graphs_of_other_types_than_float32_switch_these_on_in_tensorrt(tmp_path: Path) -> None:
    """Its networks are weakly typed: without the switch no engine is built."""
    model = export("convnet.dynamo", tmp_path)
    samples = [feeds_for("convnet.dynamo")]
    quantized = apply(Quantize, model, tmp_path, samples).model
    assert quantized.session.provider_options == {TENSORRT: {"trt_int8_enable": "True"}}
    given = replace(context(tmp_path, samples), target=GPU.plain)
    half = ConvertFloat16().apply(model, parse_options(ConvertFloat16, {}), given).model
    assert half.session.provider_options == {TENSORRT: {"trt_fp16_enable": "True"}}
    bare = replace(half, session=SessionConfig())  # as a user brings it
    assert apply(Prepare, bare, tmp_path).model.session.provider_options == half.session.provider_options
    plain = apply(Prepare, model, tmp_path)
    assert plain.changed  # it holds, whatever else was done to the graph before: the target requires it
    assert not plain.model.session.provider_options
    assert apply(Prepare, plain.model, tmp_path).notes == ("the graph was prepared before",)
    on_cpu = ConvertFloat16().apply(model, parse_options(ConvertFloat16, {}), context(tmp_path, samples)).model
    assert not on_cpu.session.provider_options


def test_a_quantized_graph_gets_kernels_of_8_bits(tmp_path: Path) -> None:
    model = export("convnet.dynamo", tmp_path)
    samples = [feeds_for("convnet.dynamo")]
    quantized = apply(Quantize, model, tmp_path, samples).model
    assert apply(TuneProvider, quantized, tmp_path, samples, profiles=False).model.session.provider_options == {
        TENSORRT: {"trt_int8_enable": "True"}
    }
    assert not apply(TuneProvider, model, tmp_path, samples, profiles=False).changed


def test_every_setting_is_one_that_a_session_file_may_have() -> None:
    options = TuneProviderOptions(
        precision="bfloat16",
        integers=True,
        builder_level=5,
        workspace_mb=512,
        cuda_graph=True,
        layer_norm_float32=True,
        sparsity=True,
        auxiliary_streams=0,
        share_memory=True,
    )
    found = provider_options(options, quantized=False)
    assert set(found) <= set(GPU.harmless_options)
    assert found["trt_max_workspace_size"] == str(512 << 20)
    assert len(found) == 9
    profiles = {f"trt_profile_{one}_shapes" for one in ("min", "opt", "max")}
    assert profiles <= set(GPU.harmless_options)


def test_settings_are_proposed_on_a_gpu_alone(tmp_path: Path) -> None:
    model = export("bert.dynamo", tmp_path)
    assert TuneProvider().worth_trying(model, GPU, "latency")
    assert not TuneProvider().worth_trying(model, OFFLINE, "latency")
    with pytest.raises(OptimError, match="dynamic-cuda-graph"):
        TuneProvider().refuse_for(parse_options(TuneProvider, {"cuda_graph": True}), model, GPU)


def test_engines_are_asked_for_by_options_of_the_provider() -> None:
    """Its ``ep.context_*`` entries of a session reach TensorRT's provider from C++ alone, as a pretended GPU shows."""
    inside, beside = written_to("a/engine.onnx", embed=True), written_to("a/engine.onnx", embed=False)
    assert (inside["trt_ep_context_embed_mode"], beside["trt_ep_context_embed_mode"]) == ("1", "0")
    assert beside.pop("trt_engine_cache_enable") == "True"  # else no file of engines is written
    assert {**beside, "trt_ep_context_embed_mode": "1"} == inside
    assert inside["trt_dump_ep_context_model"] == "True"


def test_engines_are_built_where_they_run_and_for_known_sizes(tmp_path: Path) -> None:
    model = export("bert.dynamo", tmp_path)
    assert "on the GPU that they run on" in Engine().applicable(model, OFFLINE).reason
    assert "is dynamic and has no profile" in Engine().applicable(model, GPU).reason
    samples = [feeds_for("bert.dynamo", batch=1, sequence=8)]
    profiled = apply(TuneProvider, model, tmp_path, samples).model
    assert Engine().applicable(profiled, GPU)
    given = context(tmp_path)
    given.target = GPU.plain
    with pytest.raises(OptimError, match="provider-missing"):
        Engine().apply(profiled, parse_options(Engine, {}), given)
    assert "QuantizeLinear" not in operators(profiled)


def test_an_engine_that_was_not_built_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("optim_plugins.nvidia.tensorrt.engine._build", lambda *_: None)
    with pytest.raises(OptimError) as caught:
        apply(Engine, _own(tmp_path, "Gelu"), tmp_path)
    assert caught.value.reference == "not-built"
