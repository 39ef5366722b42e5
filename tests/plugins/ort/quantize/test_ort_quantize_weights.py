"""``ort.quantize-weights``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
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
    run,
    stored,
)

from optim import Context, MeasuringContext, Model, OptimError
from optim.onnx import model_size_bytes
from optim.options import parse_options
from optim_plugins.ort.quantize.weights import block_graph
from optim_plugins.ort.quantize.weights.block_graph import round_weight
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
from optim_plugins.ort.quantize.weights.quantize_weights_options import QuantizeWeightsOptions

_FEEDS = {"x": random_weight(7, 64, seed=9)}
_CLOSE = {8: 0.02, 4: 0.15, 2: 0.6}
"""Drift of one product of normal numbers by bits; at 8 bits that of the activations, too."""


def _model(folder: Path, nodes: list[Any], weights: dict[str, Any], outputs: int = 96) -> Model:
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", outputs]})


def _product(folder: Path) -> Model:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    return _model(folder, [node], {"w": random_weight(64, 96)})


def _with_table(folder: Path, *, width: int = 64) -> Model:
    """A look-up whose table is the head, too: logits [n, 300] of ids [n]."""
    table = random_weight(300, width)
    nodes = [
        helper.make_node("Gather", ["e", "ids"], ["h"], name="look_up"),
        helper.make_node("Transpose", ["e"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["h", "t"], ["y"], name="head"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 300])],
        [numpy_helper.from_array(table, "e")],
    )
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, folder / "table.onnx")
    return stored(folder / "table.onnx", folder)


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_a_product_becomes_one_operator(bits: int, symmetric: bool, tmp_path: Path) -> None:
    model = _product(tmp_path)
    result = apply(QuantizeWeights, model, tmp_path, bits=bits, block_size=32, symmetric=symmetric)
    assert operators(result.model) == ["MatMulNBits"]
    assert result.counts == {"products quantized": 1, "tables quantized": 0, "left in float": 0}
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert 1e-4 < relative_l2(model, result.model, _FEEDS) < _CLOSE[bits]


@pytest.mark.parametrize("method", ["rtn", "k-quant", "hqq"])
@pytest.mark.parametrize("level", [0, 1, 4])
def test_every_method_runs_at_every_level(method: str, level: int, tmp_path: Path) -> None:
    options = {"bits": 4, "block_size": 32, "symmetric": False, "method": method, "accuracy_level": level}
    model = _product(tmp_path)
    result = apply(QuantizeWeights, model, tmp_path, **options)
    assert 1e-4 < relative_l2(model, result.model, _FEEDS) < _CLOSE[4]


@pytest.mark.parametrize("symmetric", [True, False])
def test_a_bias_goes_into_the_product(symmetric: bool, tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["b", "p"], ["y"])]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 96), "b": 9 * random_weight(96)})
    result = apply(QuantizeWeights, model, tmp_path, bits=4, block_size=16, symmetric=symmetric)
    assert operators(result.model) == ["MatMulNBits"]
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE[4]


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("bias", [None, (96,), (7, 96)])
def test_a_gemm_is_quantized_as_it_is(transposed: int, bias: tuple[int, ...] | None, tmp_path: Path) -> None:
    weights = {"w": random_weight(96, 64) if transposed else random_weight(64, 96)}
    if bias is not None:
        weights["b"] = random_weight(*bias)
    node = helper.make_node("Gemm", ["x", *weights], ["y"], transB=transposed)
    model = _model(tmp_path, [node], weights)
    result = apply(QuantizeWeights, model, tmp_path)
    assert operators(result.model) == ["MatMulNBits", *(["Add"] if bias == (7, 96) else [])]
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE[8]


@pytest.mark.parametrize("bits", [4, 8])
def test_a_table_and_the_head_tied_to_it_are_reached_and_stored_once(bits: int, tmp_path: Path) -> None:
    model = _with_table(tmp_path)
    result = apply(QuantizeWeights, model, tmp_path, bits=bits, embedding_bits=bits, block_size=32)
    assert operators(result.model) == ["GatherBlockQuantized", "MatMulNBits"]
    feeds = {"ids": np.array([0, 299, 7, 7])}
    assert run(result.model, feeds)["y"].shape == (4, 300)
    assert relative_l2(model, result.model, feeds) < 2 * _CLOSE[bits]
    integers = 300 * 64 * bits // 8
    assert model_size_bytes(result.model) < 1.2 * integers + 2 * 4 * 300 * 2


def test_a_table_can_stay_float(tmp_path: Path) -> None:
    result = apply(QuantizeWeights, _with_table(tmp_path), tmp_path, embedding_bits=0)
    assert operators(result.model) == ["Gather", "MatMulNBits"]
    assert QuantizeWeights().keepable(_with_table(tmp_path), QuantizeWeightsOptions(embedding_bits=0)) == ["head"]
    assert QuantizeWeights().keepable(_with_table(tmp_path), QuantizeWeightsOptions()) == ["look_up", "head"]


def test_rows_of_a_table_that_do_not_fill_the_last_block_keep_their_width(tmp_path: Path) -> None:
    model = _with_table(tmp_path, width=72)
    result = apply(QuantizeWeights, model, tmp_path, block_size=64, embedding_bits=4)
    assert relative_l2(model, result.model, {"ids": np.array([5, 6])}) < _CLOSE[4]


def test_a_repair_may_give_8_bits_to_what_has_fewer(tmp_path: Path) -> None:
    model = _with_table(tmp_path)
    for options, names in (({"bits": 4}, ["head"]), ({"bits": 4, "embedding_bits": 4}, ["look_up", "head"]), ({}, [])):
        assert QuantizeWeights().refinable(model, parse_options(QuantizeWeights, options)) == names


def test_names_to_keep_stay_float_or_get_more_bits(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="two"),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64), "v": random_weight(64, 96)})
    kept = apply(QuantizeWeights, model, tmp_path, bits=4, keep=("one", "three"))
    assert operators(kept.model) == ["MatMul", "MatMulNBits"]
    assert kept.notes == ("keep names no quantizable node: three",)
    mixed = apply(QuantizeWeights, model, tmp_path, bits=4, finer=("one",))
    bits = [
        attribute.i
        for node in proto(mixed.model).graph.node
        for attribute in node.attribute
        if attribute.name == "bits"
    ]
    assert bits == [8, 4]
    nothing = apply(QuantizeWeights, model, tmp_path, keep=("one", "two"))
    assert not nothing.changed
    assert nothing.notes == ("no weight is left to quantize",)


def test_gptq_measures_what_products_are_given(tmp_path: Path) -> None:
    nodes = [helper.make_node("Tanh", ["x"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"], name="dense")]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 96)})
    rng = np.random.default_rng(0)
    mix = rng.standard_normal((6, 64)).astype(np.float32)
    samples = [{"x": rng.standard_normal((40, 6)).astype(np.float32) @ mix} for _ in range(3)]
    options = {"bits": 4, "block_size": 32, "symmetric": False, "accuracy_level": 1}
    with_data = apply(QuantizeWeights, model, tmp_path, samples, method="gptq", **options)
    without = apply(QuantizeWeights, model, tmp_path, method="k-quant", **options)
    feeds = {"x": rng.standard_normal((40, 6)).astype(np.float32) @ mix}
    assert not with_data.notes
    assert relative_l2(model, with_data.model, feeds) < 0.9 * relative_l2(model, without.model, feeds)


def test_a_repair_rounds_no_weight_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        helper.make_node("MatMul", ["p", "v"], ["y"], name="two"),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64), "v": random_weight(64, 96)})
    rounded: list[int] = []

    def counting(columns: Any, *rest: Any) -> Any:
        rounded.append(len(columns))
        return round_weight(columns, *rest)

    monkeypatch.setattr(block_graph, "round_weight", counting)
    samples = [{"x": random_weight(40, 64, seed=seed)} for seed in range(3)]
    measured = MeasuringContext(**vars(context(tmp_path, samples)))
    transformation = QuantizeWeights()

    def drift_with(kept: tuple[str, ...], applied: QuantizeWeights, asked: Context) -> float:
        options = parse_options(QuantizeWeights, {"bits": 4, "block_size": 32, "method": "gptq", "keep": list(kept)})
        return relative_l2(model, applied.apply(model, options, asked).model, _FEEDS)

    both = drift_with((), transformation, measured)
    assert drift_with(("one",), transformation, measured) < both
    assert drift_with((), transformation, measured) == both
    assert rounded == [64, 96]
    assert drift_with((), QuantizeWeights(), context(tmp_path, samples)) == both
    measured.discard()


def _after_a_normalization(folder: Path, *, read_by_a_sum: bool) -> tuple[Model, list[dict[str, Any]]]:
    """Two products of channels of which a few are large, as trained normalizations give them; and samples."""
    rng = np.random.default_rng(0)
    scale = np.where(rng.random(64) < 0.05, 30, 1).astype(np.float32)
    nodes = [
        helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["h"], name="norm"),
        helper.make_node("MatMul", ["h", "w"], ["p"], name="one"),
        helper.make_node("MatMul", ["h", "v"], ["q"], name="two"),
        helper.make_node("Add", ["p", "q"], ["r" if read_by_a_sum else "y"]),
    ]
    if read_by_a_sum:
        nodes.append(helper.make_node("Add", ["r", "h"], ["y"]))
    weights = {"w": random_weight(64, 64), "v": random_weight(64, 64, seed=3), "scale": scale}
    model = _model(folder, nodes, {**weights, "shift": 0.1 * random_weight(64)}, 64)
    return model, [{"x": random_weight(40, 64, seed=seed)} for seed in range(3)]


@pytest.mark.parametrize("method", ["scale-estimation", "gptq"])
def test_awq_lets_a_normalization_scale_large_channels_down(method: str, tmp_path: Path) -> None:
    model, samples = _after_a_normalization(tmp_path, read_by_a_sum=False)
    options = {"bits": 4, "block_size": 32, "accuracy_level": 1, "method": method}
    plain, scaled = (apply(QuantizeWeights, model, tmp_path, samples, awq=awq, **options) for awq in (False, True))
    assert scaled.counts["scaled before them"] == 1
    assert operators(scaled.model) == operators(plain.model)
    assert model_size_bytes(scaled.model) == pytest.approx(model_size_bytes(plain.model), abs=200)
    feeds = {"x": random_weight(40, 64, seed=9)}
    assert relative_l2(model, scaled.model, feeds) < 0.8 * relative_l2(model, plain.model, feeds)


def _behind_a_gate(folder: Path, *, read_by_a_sum: bool) -> Model:
    """A product of a gate times another product, some of whose columns are large; ``u`` is read transposed."""
    large = np.where(np.random.default_rng(1).random(64) < 0.05, 30, 1).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "g"], ["before"], name="gated"),
        helper.make_node("Sigmoid", ["before"], ["gate"]),
        helper.make_node("Transpose", ["u"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["wide"], name="up"),
        helper.make_node("Mul", ["gate", "wide"], ["both"]),
        helper.make_node("MatMul", ["both", "w"], ["r" if read_by_a_sum else "y"], name="down"),
    ]
    if read_by_a_sum:
        nodes.append(helper.make_node("Add", ["r", "wide"], ["y"]))
    weights = {"g": random_weight(64, 64), "u": random_weight(64, 64, seed=3) * large[:, None]}
    return _model(folder, nodes, {**weights, "w": random_weight(64, 64, seed=5)}, 64)


def test_awq_lets_a_product_behind_a_gate_scale_large_channels_down(tmp_path: Path) -> None:
    samples = [{"x": random_weight(40, 64, seed=seed)} for seed in range(3)]
    model, feeds = _behind_a_gate(tmp_path, read_by_a_sum=False), {"x": random_weight(40, 64, seed=9)}
    options = {"bits": 4, "block_size": 32, "accuracy_level": 1, "method": "scale-estimation", "keep": ("gated", "up")}
    plain, scaled = (apply(QuantizeWeights, model, tmp_path, samples, awq=awq, **options) for awq in (False, True))
    assert scaled.counts["scaled before them"] == 1
    assert operators(scaled.model) == operators(plain.model)
    assert relative_l2(model, scaled.model, feeds) < 0.8 * relative_l2(model, plain.model, feeds)
    both = apply(QuantizeWeights, model, tmp_path, samples, awq=True, **{**options, "keep": ()})
    assert relative_l2(model, both.model, feeds) < 0.15
    read = apply(QuantizeWeights, _behind_a_gate(tmp_path, read_by_a_sum=True), tmp_path, samples, awq=True, **options)
    assert read.counts["scaled before them"] == 0


def test_awq_leaves_what_something_else_reads_as_it_is(tmp_path: Path) -> None:
    model, samples = _after_a_normalization(tmp_path, read_by_a_sum=True)
    options = {"bits": 4, "block_size": 32, "accuracy_level": 1, "method": "gptq", "awq": True}
    assert apply(QuantizeWeights, model, tmp_path, samples, **options).counts["scaled before them"] == 0
    kept = apply(
        QuantizeWeights,
        _after_a_normalization(tmp_path, read_by_a_sum=False)[0],
        tmp_path,
        samples,
        keep=("two",),
        **options,
    )
    assert kept.counts["scaled before them"] == 0


@pytest.mark.parametrize("method", ["scale-estimation", "gptq"])
@pytest.mark.parametrize("why", ["no sample", "no row", "not finite"])
def test_without_samples_that_show_something_it_says_so(method: str, why: str, tmp_path: Path) -> None:
    bad = random_weight(64, 64)
    bad[3, 3] = np.nan
    samples = {"no sample": [], "no row": [{"x": random_weight(0, 64)}], "not finite": [{"x": bad}]}[why]
    model = _product(tmp_path)
    result = apply(QuantizeWeights, model, tmp_path, samples, method=method, bits=4)
    assert result.notes == (f"k-quant in place of {method}, no sample shows what they are given: 1 nodes, first dense",)
    assert relative_l2(model, result.model, _FEEDS) < _CLOSE[4]


def test_a_weight_that_is_not_finite_stays_float(tmp_path: Path) -> None:
    weight = random_weight(64, 96)
    weight[0, 0] = np.inf
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")], {"w": weight})
    result = apply(QuantizeWeights, model, tmp_path)
    assert result.notes == ("left in float, its weight is not finite: dense", "no weight is left to quantize")


def test_a_model_without_a_large_weight_is_declined_with_its_reason(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = build(tmp_path, [node], {"w": random_weight(64, 63)}, {"x": [1, 64]}, {"y": [1, 63]})
    assert "no MatMul, Gemm or Gather" in QuantizeWeights().applicable(model, CPU).reason


def test_a_machine_without_a_fast_kernel_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optim_plugins.ort.hardware.multiplies_blocks", lambda: False)
    model = _product(tmp_path)
    assert "AVX2" in QuantizeWeights().worth_trying(model, CPU, "latency").reason
    assert "onnxruntime-web" in QuantizeWeights().worth_trying(model, replace(CPU, provider="wasm"), "latency").reason
    assert QuantizeWeights().worth_trying(model, CPU, "size")


def test_an_accuracy_level_without_a_fast_kernel_is_told(tmp_path: Path) -> None:
    for bits, level, told in ((8, 1, True), (2, 0, True), (4, 1, False), (8, 4, False)):
        result = apply(QuantizeWeights, _product(tmp_path), tmp_path, bits=bits, accuracy_level=level)
        assert any("known not to have a fast kernel" in note for note in result.notes) is told


def test_options_that_do_not_fit_each_other_are_refused() -> None:
    hqq = {"method": "hqq", "symmetric": False}
    for options in ({**hqq, "bits": 8}, {"method": "hqq", "bits": 4}, {"bits": 3}, {"awq": True}):
        with pytest.raises(OptimError) as caught:
            parse_options(QuantizeWeights, options)
        assert caught.value.reference == "bad-option"


def test_auto_tries_four_bits_only_where_few_rows_come_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optim_plugins.ort.hardware.multiplies_integers_exactly", lambda: True)
    model = _with_table(tmp_path)
    for length, bits in ((1, [8, 4, 8, 4, 4]), (128, [8])):
        asked = context(tmp_path, [{"ids": np.zeros(length, np.int64)}])
        assert [one.bits for one in QuantizeWeights().candidates(model, CPU, asked)] == bits


@pytest.mark.parametrize("exact", [True, False])
def test_auto_gives_8_bits_to_head_and_way_down_and_lets_the_clock_choose_the_level(
    exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "up"], ["wide"], name="up"),
        helper.make_node("MatMul", ["wide", "down"], ["narrow"], name="down"),
        helper.make_node("MatMul", ["narrow", "same"], ["h"], name="same"),
        helper.make_node("MatMul", ["h", "head"], ["y"], name="head"),
    ]
    sizes = {"up": (64, 256), "down": (256, 64), "same": (64, 64), "head": (64, 96)}
    model = _model(tmp_path, nodes, {name: random_weight(*size) for name, size in sizes.items()})
    monkeypatch.setattr("optim_plugins.ort.measure.sample_rows.rows_at_a_time", lambda *_: 1)
    monkeypatch.setattr("optim_plugins.ort.hardware.multiplies_integers_exactly", lambda: exact)
    found = [one for one in QuantizeWeights().candidates(model, CPU, context(tmp_path)) if one.bits == 4]
    finer = ("down", "head")
    expected = [((), 4, 128), ((), 4, 32), (finer, 4, 32), *([] if exact else [((), 1, 32)])]
    assert [(one.finer, one.accuracy_level, one.block_size) for one in found] == expected


def test_auto_gives_8_bits_to_values_and_to_the_first_product_behind_attention(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes: list[Any] = []
    for x, layer in (("x", "1"), ("o1_of_x", "2")):
        q, k, v, o = (f"{letter}{layer}" for letter in "qkvo")
        nodes += [helper.make_node("MatMul", [x, name], [f"{name}_of_x"], name=name) for name in (q, k, v)]
        nodes += [
            helper.make_node("Add", [f"{v}_of_x", "bias"], [f"moved{layer}"]),
            helper.make_node("Reshape", [f"moved{layer}", "shape"], [f"values{layer}"]),
            helper.make_node(
                "MultiHeadAttention",
                [f"{q}_of_x", f"{k}_of_x", f"values{layer}"],
                [f"all{layer}"],
                num_heads=2,
                domain="com.microsoft",
            ),
            helper.make_node("MatMul", [f"all{layer}", o], ["y" if layer == "2" else f"{o}_of_x"], name=o),
        ]
    weights = {f"{letter}{layer}": random_weight(64, 64) for letter in "qkvo" for layer in "12"}
    model = _model(tmp_path, nodes, {**weights, "bias": random_weight(64), "shape": np.array([0, 0, 64])})
    monkeypatch.setattr("optim_plugins.ort.measure.sample_rows.rows_at_a_time", lambda *_: 1)
    found = [one for one in QuantizeWeights().candidates(model, CPU, context(tmp_path)) if one.block_size == 128]
    assert [(one.bits, one.finer) for one in found] == [(8, ()), (4, ("v1", "v2", "o1"))]


@pytest.mark.parametrize(
    ("given", "most", "method"), [(True, 10**9, "gptq"), (True, 10, "scale-estimation"), (False, 10**9, "k-quant")]
)
def test_auto_rounds_by_samples_that_are_the_users(
    given: bool, most: int, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optim_plugins.ort.quantize.weights.block_plan._MOST_BY_GPTQ", most)
    asked = replace(context(tmp_path, [{"ids": np.zeros(1, np.int64)}]), feeds_given=given)
    found = QuantizeWeights().candidates(_with_table(tmp_path), CPU, asked)
    assert {one.method for one in found if one.bits == 4} == {method}


@pytest.mark.parametrize("name", EXPORTS)
def test_exports_stay_near(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    if not QuantizeWeights().applicable(model, CPU):
        pytest.skip("nothing to quantize")
    result = apply(QuantizeWeights, model, tmp_path, block_size=32)
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert 1e-4 < relative_l2(model, result.model, feeds_for(name)) < 0.05
    again = QuantizeWeights().apply(result.model, QuantizeWeightsOptions(), context(tmp_path))
    assert not again.changed
