"""Passes of plugin ``cuda``: graphs held against what they replace, in numpy where the CPU has no kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from ort_models import CPU, apply, build, context, export, feeds_for, in_float16, operators, relative_l2, run, stored

from optim import Model, OptimError, Stage
from optim.options import parse_options
from optim.providers import CUDA, GROUP_QUERY_FUSION
from optim_plugins.nvidia.cuda.fuse import Fuse
from optim_plugins.nvidia.cuda.group_norm import fuse_group_norm
from optim_plugins.nvidia.cuda.grouped_query import is_causal
from optim_plugins.nvidia.cuda.tune_provider import TuneProvider, provider_options
from optim_plugins.nvidia.cuda.tune_provider_options import TuneProviderOptions
from optim_plugins.nvidia.gpu.targets import cuda_targets
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.past.share_past import SharePast
from optim_plugins.ort.graph.known_attributes import notes_on_unknown
from optim_plugins.ort.offered import offered
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16

GPU, OFFLINE = cuda_targets()


def test_settings_go_by_the_providers_own_names() -> None:
    options = TuneProviderOptions(
        conv_search="heuristic", prefer_nhwc=True, tf32=False, arena="same-as-requested", tunable_ops=True
    )
    assert provider_options(options) == {
        "cudnn_conv_algo_search": "HEURISTIC",
        "prefer_nhwc": "1",
        "use_tf32": "0",
        "arena_extend_strategy": "kSameAsRequested",
        "tunable_op_enable": "1",
        "tunable_op_tuning_enable": "1",
    }
    assert provider_options(TuneProviderOptions()) == {}


def test_every_setting_is_one_that_a_session_file_may_have() -> None:
    everything: dict[str, Any] = dict.fromkeys(TuneProviderOptions.model_fields, True)
    everything |= {"conv_search": "default", "arena": "next-power-of-two"}
    found = provider_options(TuneProviderOptions(**everything))
    assert set(found) <= set(GPU.harmless_options)
    assert len(found) == len(everything) + 1


def test_settings_belong_to_the_model_and_leave_its_graph_alone(tmp_path: Path) -> None:
    model = export("convnet.dynamo", tmp_path)
    result = apply(TuneProvider, model, tmp_path, prefer_nhwc=True)
    assert result.model.session.provider_options == {CUDA: {"prefer_nhwc": "1"}}
    assert (result.model.path, result.counts) == (model.path, {"settings": 1})
    again = apply(TuneProvider, result.model, tmp_path, prefer_nhwc=True)
    assert not again.changed
    assert not apply(TuneProvider, model, tmp_path).changed


def test_what_is_proposed_fits_the_graph_and_needs_a_gpu(tmp_path: Path) -> None:
    convolutions, encoder = export("convnet.dynamo", tmp_path), export("bert.dynamo", tmp_path)
    proposed = {
        model.path: [dict(one.model_dump(exclude_none=True)) for one in TuneProvider().candidates(model, GPU, None)]  # type: ignore[arg-type]
        for model in (convolutions, encoder)
    }
    assert {"prefer_nhwc": True} in proposed[convolutions.path]
    assert {"prefer_nhwc": True} not in proposed[encoder.path]
    assert not any("cuda_graph" in one for found in proposed.values() for one in found)
    assert TuneProvider().worth_trying(encoder, GPU, "latency")
    assert not TuneProvider().worth_trying(encoder, OFFLINE, "latency")


def test_a_cuda_graph_needs_fixed_sizes_and_says_how_it_is_run(tmp_path: Path) -> None:
    dynamic = build(tmp_path, [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": ["n"]}, {"y": ["n"]})
    with pytest.raises(OptimError, match="dynamic-cuda-graph"):
        TuneProvider().refuse_for(parse_options(TuneProvider, {"cuda_graph": True}), dynamic, GPU)
    (tmp_path / "fixed").mkdir()
    fixed = build(tmp_path / "fixed", [helper.make_node("Tanh", ["x"], ["y"])], {}, {"x": [2]}, {"y": [2]})
    TuneProvider().refuse_for(parse_options(TuneProvider, {"cuda_graph": True}), fixed, GPU)
    assert "IO binding" in apply(TuneProvider, fixed, tmp_path, cuda_graph=True).notes[0]


@pytest.fixture
def fused(tmp_path: Path) -> Model:
    """A small encoder with MultiHeadAttention."""
    return apply(FuseTransformer, export("bert.dynamo", tmp_path), tmp_path, leave_out=["attention"]).model


def _products(model: Model, feeds: dict[str, Any]) -> dict[str, list[np.ndarray]]:
    """What every MultiHeadAttention of a model is given for queries, keys and values, [batch, rows, hidden]."""
    graph = onnx.load(model.path)
    nodes = [node for node in graph.graph.node if node.op_type == "MultiHeadAttention"]
    names = {node.name: [name for name in node.input[:3] if name] for node in nodes}
    kept = [node for node in graph.graph.node if node.op_type != "MultiHeadAttention"]
    first = nodes[0]
    before = kept[: [node.name for node in graph.graph.node].index(first.name)]
    cut = helper.make_graph(
        before,
        "cut",
        graph.graph.input,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names[first.name]],
        graph.graph.initializer,
    )
    del graph.graph.node[:]
    cut_model = helper.make_model(cut, ir_version=graph.ir_version, opset_imports=graph.opset_import)
    import onnxruntime

    session = onnxruntime.InferenceSession(cut_model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = {value.name for value in session.get_inputs()}
    return {first.name: session.run(names[first.name], {k: v for k, v in feeds.items() if k in wanted})}


def test_packed_projections_are_those_that_were_apart(fused: Model, tmp_path: Path) -> None:
    result = apply(Fuse, fused, tmp_path)
    assert result.counts["packed_attention"] == 2
    feeds = feeds_for("bert.dynamo", batch=2, sequence=5)
    (apart,), (packed,) = _products(fused, feeds).values(), _products(result.model, feeds).values()
    assert [len(apart), len(packed)] == [3, 1]
    for place, array in enumerate(apart):
        taken = packed[0][:, :, :, place].reshape(array.shape)
        np.testing.assert_allclose(taken, array, rtol=1e-5, atol=1e-6)
    assert not apply(Fuse, result.model, tmp_path).changed


class GroupNorm(OpRun):
    """com.microsoft.GroupNorm after onnxruntime's ``docs/ContribOperators.md``, channels last."""

    op_domain = "com.microsoft"

    def _run(self, x: Any, gamma: Any, beta: Any, **attributes: Any) -> tuple[Any]:
        groups = attributes["groups"]
        split = x.reshape(x.shape[0], -1, groups, x.shape[-1] // groups)
        mean, variance = split.mean((1, 3), keepdims=True), split.var((1, 3), keepdims=True)
        y = ((split - mean) / np.sqrt(variance + attributes["epsilon"])).reshape(x.shape) * gamma + beta
        return ((y / (1 + np.exp(-y)) if attributes["activation"] else y).astype(x.dtype),)


def _group_norm_graph(tmp_path: Path, *, silu: bool) -> Model:
    rng = np.random.default_rng(0)
    numbers = {
        "one": np.ones(4, np.float32),
        "nil": np.zeros(4, np.float32),
        "scale": rng.standard_normal((8, 1, 1)).astype(np.float32),
        "bias": rng.standard_normal((8, 1, 1)).astype(np.float32),
        "apart": np.int64([0, 4, -1]),
        "whole": np.int64([2, 8, 3, 5]),
    }
    nodes = [
        helper.make_node("Reshape", ["x", "apart"], ["r"]),
        helper.make_node("InstanceNormalization", ["r", "one", "nil"], ["i"], epsilon=1e-5),
        helper.make_node("Reshape", ["i", "whole"], ["b"]),
        helper.make_node("Mul", ["b", "scale"], ["m"]),
        helper.make_node("Add", ["m", "bias"], ["a"]),
    ]
    if silu:
        nodes += [helper.make_node("Sigmoid", ["a"], ["s"]), helper.make_node("Mul", ["a", "s"], ["y"])]
    else:
        nodes += [helper.make_node("Neg", ["a"], ["y"])]
    return build(tmp_path, nodes, numbers, {"x": [2, 8, 3, 5]}, {"y": [2, 8, 3, 5]}, opset=18, ir_version=10)


@pytest.mark.parametrize("silu", [False, True])
def test_group_normalization_is_one_operator_with_its_silu(tmp_path: Path, silu: bool) -> None:
    model = _group_norm_graph(tmp_path, silu=silu)
    result = apply(Fuse, model, tmp_path)
    assert result.counts["group_norm"] == 1
    assert operators(result.model).count("Sigmoid") == 0
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 8, 3, 5)).astype(np.float32)}
    proto = onnx.load(result.model.path)
    (got,) = ReferenceEvaluator(proto, new_ops=[GroupNorm]).run(None, feeds)
    np.testing.assert_allclose(got, run(model, feeds)["y"], rtol=1e-4, atol=1e-5)
    assert all(numpy_helper.to_array(one).dtype != np.float64 for one in proto.graph.initializer)


@pytest.mark.parametrize("place", range(7))
def test_a_part_of_group_normalization_with_an_unknown_attribute_stays(tmp_path: Path, place: int) -> None:
    graph = _group_norm_graph(tmp_path, silu=True).ir()
    list(graph.graph)[place].attributes["not_yet_invented"] = ir.AttrInt64("not_yet_invented", 1)
    assert fuse_group_norm(graph) == 0
    assert "attribute 'not_yet_invented'" in "; ".join(notes_on_unknown(graph))


@pytest.mark.parametrize("place", range(6))
def test_a_value_inside_group_normalization_that_is_an_output_stays_what_it_is(tmp_path: Path, place: int) -> None:
    graph = _group_norm_graph(tmp_path, silu=True).ir()
    value = list(graph.graph)[place].outputs[0]
    value.dtype = ir.DataType.FLOAT
    graph.graph.outputs.append(value)
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 8, 3, 5)).astype(np.float32)}
    before = ReferenceEvaluator(ir.serde.serialize_model(graph)).run(None, feeds)
    fuse_group_norm(graph)
    after = ReferenceEvaluator(ir.serde.serialize_model(graph), new_ops=[GroupNorm]).run(None, feeds)
    for one, two in zip(before, after, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-5)


def test_what_cuda_alone_runs_is_not_tried_without_a_gpu(fused: Model, tmp_path: Path) -> None:
    assert Fuse().worth_trying(fused, GPU, "latency")
    assert "no kernels" in Fuse().worth_trying(fused, OFFLINE, "latency").reason
    plain = export("convnet.dynamo", tmp_path)
    assert "no MultiHeadAttention" in Fuse().applicable(plain, GPU).reason
    assert Fuse().apply(fused, parse_options(Fuse, {"leave_out": ["packed_attention"]}), context(tmp_path)).notes


def _biases(model: Model) -> list[str]:
    nodes = onnx.load(model.path, load_external_data=False).graph.node
    return [node.input[10] for node in nodes if node.op_type == "GroupQueryAttention" and len(node.input) > 10]


def test_attention_over_a_past_does_without_a_mask_that_only_hides_what_comes_later(tmp_path: Path) -> None:
    shared = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    assert not apply(Fuse, shared, tmp_path, unpadded=True).changed  # CUDA has no such kernel in float32
    half = apply(ConvertFloat16, shared, tmp_path, [feeds_for("llama", sequence=1)], io="convert").model
    assert len(_biases(half)) == 2
    assert not apply(Fuse, half, tmp_path).changed  # nobody has said that nothing is padded
    result = apply(Fuse, half, tmp_path, unpadded=True)
    assert result.counts["grouped_query"] == 2
    assert not any(_biases(result.model))
    assert result.model.session.disabled_optimizers == (GROUP_QUERY_FUSION,)
    for sizes in ({"sequence": 1, "batch": 2}, {"sequence": 3, "batch": 1}):
        feeds = feeds_for("llama", **sizes)
        feeds["attention_mask"] = np.ones_like(feeds["attention_mask"])
        halved = {n: a.astype(np.float16) if a.dtype == np.float32 else a for n, a in feeds.items()}
        assert relative_l2(half, result.model, halved) < 1e-3
    assert not apply(Fuse, result.model, tmp_path, unpadded=True).changed


def test_a_past_is_shared_for_cuda_and_tried_unasked_only_in_16_bits(tmp_path: Path) -> None:
    """Never run on a GPU: the CPU computes it here."""
    assert all(SharePast in offered(target, Stage.FUSE) for target in (GPU, OFFLINE))
    plain = export("llama.dynamo", tmp_path)
    for target in (GPU, OFFLINE):
        assert "16 bits only" in SharePast().worth_trying(plain, target, "generate").reason
    assert SharePast().worth_trying(plain, CPU, "generate")
    graph = onnx.load(plain.path)
    in_float16(graph)
    onnx.save(graph, tmp_path / "half.onnx")
    half = stored(tmp_path / "half.onnx", tmp_path)
    assert SharePast().worth_trying(half, GPU, "generate")


@pytest.mark.parametrize(
    ("window", "distance", "causal"),
    [(0, 0.0, True), (4096, 0.0, False), (0, -0.5, False)],
    ids=["causal", "window", "bias"],
)
def test_a_mask_with_a_window_or_a_bias_by_distance_is_kept(window: int, distance: float, causal: bool) -> None:
    """mask[i, j] of new token i and token j: hidden where j > past + i, or a window before that."""
    make, constant = helper.make_node, numpy_helper.from_array
    nodes = [
        make("Shape", ["attention_mask"], ["total"], start=1),
        make("Shape", ["input_ids"], ["new"], start=1),
        make("Sub", ["total", "new"], ["past"]),
        *(make("Squeeze", [name], [f"{name}_scalar"]) for name in ("total", "past")),
        make("Range", ["zero", "total_scalar", "one"], ["columns"]),
        make("Range", ["past_scalar", "total_scalar", "one"], ["rows"]),
        make("Unsqueeze", ["rows", "axis"], ["rows_down"]),
        make("Sub", ["columns", "rows_down"], ["ahead"]),
        make("Greater", ["ahead", "zero"], ["later"]),
        make("Less", ["ahead", "reach"], ["beyond"]),
        make("Or", ["later", "beyond"], ["hidden"]),
        make("Cast", ["ahead"], ["far"], to=TensorProto.FLOAT),
        make("Mul", ["far", "slope"], ["bias"]),
        make("Where", ["hidden", "lowest", "bias"], ["mask"]),
        make("Identity", ["mask"], ["y"]),
    ]
    weights = {"zero": 0, "one": 1, "axis": np.array([1]), "reach": -window or -(10**9)}
    given = [constant(np.asarray(value, np.int64), name) for name, value in weights.items()]
    given += [constant(np.float32(value), name) for name, value in (("slope", distance), ("lowest", -65504))]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [1, name]) for name in ("attention_mask", "input_ids")
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", "columns"])
    graph = helper.make_graph(nodes, "g", inputs, [output], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    assert is_causal(ir.from_proto(model), "mask") is causal
