"""Parts of static quantization: the friendly graph, the plan, index paths, ranges."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import Array, apply, build, context, operators, random_weight, relative_l2, run

from optim import Model
from optim.onnx.files import save_in_store
from optim_plugins.ort.measure.calibrate import CalibratedRanges, calibrate
from optim_plugins.ort.measure.channel_means import believed_mean
from optim_plugins.ort.measure.integer_ranges import BINS, Histogram, Range, choose_range, foreseen_range, whole_range
from optim_plugins.ort.quantize.static.quantizable_operators import make_friendly
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.static.static_graph import prepared
from optim_plugins.ort.quantize.static.static_plan import make_plan

_FEEDS = {"x": random_weight(2, 3, 8, 8)}


def _friendly(folder: Path, model: Model) -> tuple[Model, dict[str, int]]:
    graph = model.ir()
    counts = make_friendly(graph)
    return save_in_store(graph, folder / "store"), counts


def _normalized(folder: Path, *, bias: bool = True) -> Model:
    inputs = ["x", "w", "b"] if bias else ["x", "w"]
    nodes = [
        helper.make_node("Conv", inputs, ["c"], name="conv"),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["y"]),
    ]
    weights = {
        "w": random_weight(4, 3, 3, 3),
        "scale": random_weight(4),
        "shift": random_weight(4, seed=1),
        "mean": random_weight(4, seed=2),
        "variance": np.abs(random_weight(4, seed=3)) + 0.1,
    }
    if bias:
        weights["b"] = random_weight(4, seed=5)
    return build(folder, nodes, weights, {"x": ["n", 3, 8, 8]}, {"y": ["n", 4, 6, 6]})


@pytest.mark.parametrize("bias", [True, False])
def test_a_batch_normalization_goes_into_the_convolution_before_it(bias: bool, tmp_path: Path) -> None:
    model = _normalized(tmp_path, bias=bias)
    made, counts = _friendly(tmp_path, model)
    assert counts == {"normalizations folded": 1}
    assert operators(made) == ["Conv"]
    assert relative_l2(model, made, _FEEDS) < 1e-5


def test_zeros_around_an_image_become_the_convolutions_own(tmp_path: Path) -> None:
    nodes = [helper.make_node("Pad", ["x", "pads"], ["p"]), helper.make_node("Conv", ["p", "w"], ["y"])]
    weights = {"w": random_weight(4, 3, 3, 3), "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1], np.int64)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 8, 8]}, {"y": ["n", 4, 9, 7]})
    made, counts = _friendly(tmp_path, model)
    assert counts == {"Pad folded": 1}
    assert relative_l2(model, made, _FEEDS) < 1e-6


@pytest.mark.parametrize("mode", ["reflect", "constant of 1"])
def test_other_padding_stays(mode: str, tmp_path: Path) -> None:
    inputs = ["x", "pads"] if mode == "reflect" else ["x", "pads", "one"]
    pad = helper.make_node("Pad", inputs, ["p"], mode=mode.split()[0])
    weights = {
        "w": random_weight(4, 3, 3, 3),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64),
        "one": np.array(1, np.float32),
    }
    model = build(
        tmp_path,
        [pad, helper.make_node("Conv", ["p", "w"], ["y"])],
        weights,
        {"x": ["n", 3, 8, 8]},
        {"y": ["n", 4, 8, 8]},
    )
    assert _friendly(tmp_path, model)[1] == {}


@pytest.mark.parametrize("opset", [11, 17, 18])
@pytest.mark.parametrize("keep", [0, 1])
def test_a_mean_over_the_image_becomes_pooling(keep: int, opset: int, tmp_path: Path) -> None:
    conv = helper.make_node("Conv", ["x", "w"], ["c"])
    weights: dict[str, Any] = {"w": random_weight(4, 3, 3, 3)}
    if opset < 18:
        mean = helper.make_node("ReduceMean", ["c"], ["y"], axes=[2, 3], keepdims=keep)
    else:
        mean = helper.make_node("ReduceMean", ["c", "axes"], ["y"], keepdims=keep)
        weights["axes"] = np.array([-1, 2], np.int64)
    shape = ["n", 4, 1, 1] if keep else ["n", 4]
    model = build(tmp_path, [conv, mean], weights, {"x": ["n", 3, 8, 8]}, {"y": shape}, opset=opset)
    graph = model.ir()
    value = next(node.outputs[0] for node in graph.graph if node.op_type == "Conv")
    value.shape, value.type = type(graph.graph.inputs[0].shape)(["n", 4, 6, 6]), graph.graph.inputs[0].type
    counts = make_friendly(graph)
    made = save_in_store(graph, tmp_path / "store")
    assert counts == {"ReduceMean as pooling": 1}
    assert relative_l2(model, made, _FEEDS) < 1e-6


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("square", ["Pow", "Mul"])
def test_means_of_a_normalization_of_tokens_stay_where_the_runtime_fuses_them(
    centred: bool, square: str, tmp_path: Path
) -> None:
    """LayerNormalization and T5's RMSNorm in parts, over the last of three axes, as exporters write them."""
    x = "c" if centred else "x"
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[-1]), helper.make_node("Sub", ["x", "m"], ["c"])]
    nodes = nodes if centred else []
    nodes += [
        helper.make_node(square, [x, "two" if square == "Pow" else x], ["s"]),
        helper.make_node("ReduceMean", ["s"], ["v"], axes=[-1]),
        helper.make_node("Add", ["v", "tiny"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
        helper.make_node("Div", [x, "r"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["y"]),
    ]
    scalars = {"two": np.array(2, np.float32), "tiny": np.array(1e-6, np.float32)}
    weights = {**scalars, "scale": random_weight(16)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 8, 16]}, {"y": ["n", 8, 16]}, opset=13)
    graph = model.ir()
    for node in graph.graph:
        node.outputs[0].shape, node.outputs[0].type = graph.graph.inputs[0].shape, graph.graph.inputs[0].type
    assert make_friendly(graph) == {}
    assert [node.op_type for node in graph.graph].count("ReduceMean") == 1 + centred


def _position_path(folder: Path) -> Model:
    """As in T5: distances, through a product and a logarithm, are buckets of a table; beside it a plain product."""
    nodes = [
        helper.make_node("MatMul", ["x", "steps"], ["d"], name="distances"),
        helper.make_node("Abs", ["d"], ["a"]),
        helper.make_node("Add", ["a", "one"], ["a1"]),
        helper.make_node("Log", ["a1"], ["l"]),
        helper.make_node("Cast", ["l"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["t", "i"], ["e"]),
        helper.make_node("MatMul", ["x", "w"], ["p"], name="plain"),
        helper.make_node("ReduceSum", ["e"], ["s"]),
        helper.make_node("Add", ["p", "s"], ["y"]),
    ]
    weights = {
        "steps": random_weight(64, 64),
        "one": np.array(1, np.float32),
        "t": random_weight(300, 2),
        "w": random_weight(64, 96),
    }
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 96]})


def test_a_path_that_carries_indices_is_left_alone(tmp_path: Path) -> None:
    model = _position_path(tmp_path)
    assert make_plan(prepared(model, "uint8")).choices == ["plain"]
    result = apply(QuantizeStatic, model, tmp_path, [{"x": random_weight(30, 64)}])
    assert operators(result.model).count("MatMul") == 1
    assert relative_l2(model, result.model, {"x": random_weight(30, 64, seed=3)}) < 0.05


def test_a_choice_among_values_ends_an_index_path(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="scores"),
        helper.make_node("TopK", ["p", "k"], ["v", "i"]),
        helper.make_node("Gather", ["t", "i"], ["y"]),
    ]
    weights = {"w": random_weight(64, 96), "k": np.array([1], np.int64), "t": random_weight(96)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 1]})
    assert make_plan(prepared(model, "uint8")).choices == ["scores"]


def test_a_carrier_that_no_integers_reach_stays_float(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["m"], kernel_shape=[2, 2]),
        helper.make_node("Conv", ["m", "w"], ["c"], name="conv"),
        helper.make_node("Sigmoid", ["c"], ["y"]),
    ]
    model = build(tmp_path, nodes, {"w": random_weight(4, 3, 3, 3)}, {"x": ["n", 3, 8, 8]}, {"y": ["n", 4, 5, 5]})
    plan = make_plan(prepared(model, "uint8"))
    assert [one.name for one in plan.nodes] == ["conv"]


def test_convolutions_in_branches_stay_float(tmp_path: Path) -> None:
    def branch(seed: int) -> Any:
        tensor = numpy_helper.from_array(random_weight(4, 3, 3, 3, seed=seed), "w")
        node = helper.make_node("Conv", ["x", "w"], ["r"], name=f"inside{seed}")
        return helper.make_graph([node], "b", [], [helper.make_tensor_value_info("r", 1, None)], [tensor])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["i"], then_branch=branch(1), else_branch=branch(2)),
        helper.make_node("Conv", ["i", "v"], ["y"], name="outside"),
    ]
    weights = {"zero": np.array(0, np.float32), "v": random_weight(4, 4, 3, 3)}
    model = build(tmp_path, nodes, weights, {"x": ["n", 3, 8, 8]}, {"y": ["n", 4, 4, 4]})
    result = apply(QuantizeStatic, model, tmp_path, [_FEEDS])
    assert result.counts["Conv quantized"] == 1
    assert relative_l2(model, result.model, _FEEDS) < 0.03


def _histogram(values: Array) -> Histogram:
    whole = Range.around(float(values.min()), float(values.max()))
    return Histogram(whole, np.zeros(BINS, np.int64)).with_values(values)


@pytest.mark.parametrize("method", ["entropy", "percentile"])
def test_few_far_values_are_clipped(method: str) -> None:
    values = np.abs(random_weight(200_000))
    values[:5] = 60
    chosen = choose_range(_histogram(values), method, percentile=99.9, levels=256)
    assert chosen.low == pytest.approx(0, abs=1e-9)
    assert 2.5 < chosen.high < 30


@pytest.mark.parametrize("method", ["mse", "entropy"])
def test_an_even_spread_is_not_clipped(method: str) -> None:
    values = np.linspace(-1, 3, 400_000, dtype=np.float32)
    chosen = choose_range(_histogram(values), method, percentile=99.9, levels=256)
    assert chosen.low < -0.95
    assert chosen.high > 2.85


def test_a_peak_of_zeros_does_not_move_the_range() -> None:
    values = np.abs(random_weight(100_000))
    with_zeros = np.concatenate([values, np.zeros(300_000, np.float32)])
    found = [choose_range(_histogram(one), "entropy", percentile=99, levels=256).high for one in (values, with_zeros)]
    assert found[1] == pytest.approx(found[0], rel=0.15)


def test_the_least_squared_error_is_really_the_least() -> None:
    values = np.random.default_rng(0).standard_t(4, 100_000).astype(np.float32)

    def error(one: Range) -> float:
        step = (one.high - one.low) / 255
        return float(((np.clip(np.rint(values / step) * step, one.low, one.high) - values) ** 2).sum())

    histogram = _histogram(values)
    chosen = choose_range(histogram, "mse", percentile=99, levels=256)
    assert error(chosen) < error(histogram.whole)
    for share in (0.8, 1.3):
        assert error(chosen) < 1.02 * error(Range(chosen.low * share, chosen.high * share))


def _wide(folder: Path) -> Model:
    nodes = [helper.make_node("Conv", ["x", "a"], ["h0"], name="first")]
    nodes += [helper.make_node("Conv", [f"h{i}", "b"], [f"h{i + 1}"], name=f"c{i}") for i in range(12)]
    weights = {"a": random_weight(16, 3, 1, 1), "b": random_weight(16, 16, 1, 1) / 4}
    return build(
        folder,
        [*nodes, helper.make_node("Tanh", ["h12"], ["y"])],
        weights,
        {"x": ["n", 3, 128, 128]},
        {"y": ["n", 16, 128, 128]},
    )


@pytest.mark.slow
def test_ranges_agree_with_the_values_and_memory_does_not_grow_with_samples(tmp_path: Path) -> None:
    model = _wide(tmp_path)
    names = [f"h{i}" for i in range(13)]
    samples = [{"x": random_weight(2, 3, 128, 128, seed=seed)} for seed in range(12)]
    peaks = {}
    for count in (3, 12):
        asked = context(tmp_path, samples[:count])
        tracemalloc.start()
        how = CalibratedRanges("mse", 99.9, 256)
        found = calibrate(lambda: prepared(model, "uint8"), names, {"h0": None}, how, model, asked)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert found.samples == count
        assert set(found.ranges) == set(names)
    each = [run(_giving(model, "h0", tmp_path), one)["h0"] for one in samples]
    values = np.concatenate(each)
    assert found.means["h0"] == pytest.approx(believed_mean([one.mean(axis=(0, 2, 3)) for one in each]), abs=1e-4)
    assert 0.5 * values.max() < found.ranges["h0"].high <= values.max() + 1e-5
    assert peaks[12] < 1.3 * peaks[3] + (1 << 20)


def _giving(model: Model, name: str, folder: Path) -> Model:
    """The model with one of its values as its output."""
    graph = model.ir()
    value = next(output for node in graph.graph for output in node.outputs if output.name == name)
    value.type, value.shape = graph.graph.inputs[0].type, ir.Shape(["n", 16, 128, 128])
    graph.graph.outputs.clear()
    graph.graph.outputs.append(value)
    return save_in_store(graph, folder / "store")


def test_correcting_the_bias_takes_out_what_rounding_adds_on_average(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], name="conv")
    weights = {"w": random_weight(8, 3, 3, 3), "b": random_weight(8)}
    model = build(tmp_path, [node], weights, {"x": ["n", 3, 8, 8]}, {"y": ["n", 8, 6, 6]})
    samples = [{"x": random_weight(4, 3, 8, 8, seed=seed) + 20} for seed in range(4)]

    def mean_error(**options: Any) -> float:
        made = apply(QuantizeStatic, model, tmp_path, samples, format="qdq", activations="uint16", **options).model
        errors = [run(made, one)["y"] - run(model, one)["y"] for one in samples]
        return float(np.abs(np.mean(errors, axis=(0, 1, 3, 4))).mean())

    assert mean_error(correct_bias=True) < 0.2 * mean_error(correct_bias=False)


def test_a_foreseen_range_leaves_room_for_the_next_sample_and_no_more_than_as_much_again() -> None:
    alike = [Range(-1.0 - place / 100, 2.0) for place in range(4)]
    found = foreseen_range(alike)
    assert -1.2 < found.low < -1.03
    assert found.high == 2.0
    wild = foreseen_range([Range(-0.1, 0.1), Range(-0.1, 0.1), Range(-0.1, 0.1), Range(-9.0, 4.0)])
    assert wild == Range(-18.0, 8.0)


def test_few_samples_foresee_nothing() -> None:
    seen = [Range(-1.0, 2.0), Range(-1.5, 1.0), Range(0.0, 2.5)]
    assert foreseen_range(seen) == whole_range(seen) == Range(-1.5, 2.5)


def test_the_range_of_samples_of_which_one_has_nan_is_not_finite() -> None:
    assert not whole_range([Range(-1.0, 2.0), Range(float("nan"), 1.0)]).is_finite


def test_a_range_of_denormal_numbers_counts_each_value() -> None:
    values = np.linspace(0, 1e-40, 100, dtype=np.float32)
    assert _histogram(values).counts.sum() == 100
