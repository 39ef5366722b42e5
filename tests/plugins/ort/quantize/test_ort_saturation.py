"""7-bit weights where pairs of 8-bit products would saturate, node by node, and nowhere else."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import CPU, Array, apply, build, context, proto, random_weight, relative_l2
from processors import Command
from rounding import rounding

from optim import Model
from optim_plugins.ort import hardware
from optim_plugins.ort.hardware import ADDS_IN_32_BITS, Processor, this_processor
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.narrow_weights import judged_convolution
from optim_plugins.ort.quantize.saturation import Geometry, lost_to_saturation, narrower_is_closer, windows
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic

AVX2 = Processor("x86_64", frozenset({"avx", "avx2", "fma"}))
AVX512 = Processor("x86_64", frozenset({"avx2", "avx512f", "avx512bw"}))
VNNI = Processor("x86_64", frozenset({"avx2", "avx_vnni"}))
ARM = Processor("aarch64", frozenset({"asimd", "asimddp"}))


def integers(seed: int, rows: int = 6, inner: int = 33, columns: int = 20) -> tuple[Array, Array]:
    """Activations and weights, most of them large: many pairs saturate."""
    random = np.random.default_rng(seed)
    a = random.integers(120, 256, (rows, inner)).astype(np.uint8)
    w = random.integers(-127, 128, (inner, columns))
    return a, np.where(random.random(w.shape) < 0.5, np.abs(w), w).astype(np.int8)


def by_hand(a: Array, w: Array) -> Array:
    """What vpmaddubsw loses, spelled out."""
    lost = np.zeros((len(a), w.shape[1]), np.int64)
    for k in range(0, a.shape[1] - 1, 2):
        pair = a[:, k, None] * w[k].astype(int) + a[:, k + 1, None] * w[k + 1].astype(int)
        lost += pair - np.clip(pair, -32768, 32767)
    return lost


def by_runtime(a: Array, w: Array) -> Array:
    node = helper.make_node("MatMulInteger", ["a", "w"], ["y"])
    inputs = [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.INT32, [len(a), w.shape[1]])]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    result: Array = session.run(None, {"a": a})[0]
    return result


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_is_that_of_pairs_added_in_16_bits(seed: int) -> None:
    a, w = integers(seed)
    lost = lost_to_saturation(a.astype(np.int32), w)
    assert np.array_equal(lost, by_hand(a, w))
    assert (lost != 0).any()


def test_the_runtime_here_loses_what_is_said_of_its_processor() -> None:
    a, w = integers(0)
    lost = lost_to_saturation(a.astype(np.int32), w)
    expected = a.astype(int) @ w.astype(int) - (0 if ADDS_IN_32_BITS.value(this_processor()) else lost)
    assert np.array_equal(by_runtime(a, w), expected)


def test_where_the_system_does_not_tell_the_runtime_does() -> None:
    here = this_processor()
    unknown = Processor(here.machine, frozenset())
    assert ADDS_IN_32_BITS.value(unknown) == ADDS_IN_32_BITS.value(here)
    assert ADDS_IN_32_BITS.value(Processor("arm64", frozenset()))


@pytest.fixture
def under_avx2(as_avx2: Command) -> Callable[..., str]:
    """What a program prints whose runtime takes this processor for one with AVX2 and nothing newer."""
    places = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])

    def run(code: str, *words: str | Path) -> str:
        command = [sys.executable, "-c", f"import sys; {code}", *words]
        return as_avx2(*command, env={**os.environ, "PYTHONPATH": places}).stdout

    return run


@pytest.mark.slow
def test_the_kernels_for_avx2_lose_just_that(under_avx2: Callable[..., str], tmp_path: Path) -> None:
    a, w = integers(1)
    np.savez(tmp_path / "given.npz", a=a, w=w)
    code = (
        "import numpy; from test_ort_saturation import by_runtime; given = numpy.load(sys.argv[1]);"
        "numpy.save(sys.argv[2], by_runtime(given['a'], given['w']))"
    )
    under_avx2(code, tmp_path / "given.npz", tmp_path / "got.npy")
    assert np.array_equal(np.load(tmp_path / "got.npy"), a.astype(int) @ w.astype(int) - by_hand(a, w))


@pytest.mark.parametrize("bits", [7, 8])
def test_tolerances_of_these_tests_are_those_of_their_bits(bits: int) -> None:
    """Above what rounding does, and less than three times as much."""
    rows, weight = random_weight(64, 256, seed=4).astype(np.float64), random_weight(256, 96, seed=5).astype(np.float64)
    row_step, weight_step = np.ptp(rows) / 255, np.abs(weight).max(axis=0) / (2 ** (bits - 1) - 1)
    found = (np.rint(rows / row_step) * row_step) @ (np.rint(weight / weight_step) * weight_step)
    exact = rows @ weight
    error = np.linalg.norm(found - exact) / np.linalg.norm(exact)
    assert error < rounding(weights=bits) < 3 * error


@pytest.mark.slow
def test_on_avx2_a_map_smaller_than_its_kernel_is_quantized_as_proposed_and_stays_near(
    under_avx2: Callable[..., str], tmp_path: Path
) -> None:
    code = (
        "from pathlib import Path; from test_ort_saturation import drifts_of_a_small_map;"
        "print(*drifts_of_a_small_map(Path(sys.argv[1])))"
    )
    proposed, narrow, wide = under_avx2(code, tmp_path).split()
    assert proposed == "saturating"
    assert float(narrow) < float(wide) / 2, "8-bit weights saturate, 7-bit ones do not"


def drifts_of_a_small_map(folder: Path) -> tuple[str, float, float]:
    """What the pass proposes here, its drift, and that of 8 bits everywhere; run by a program of its own."""
    model = small_map(folder)
    (proposed,) = {one.reduce_range for one in QuantizeStatic().candidates(model, CPU, context(folder, SMALL))}
    narrow = apply(QuantizeStatic, model, folder, SMALL, reduce_range=proposed)
    wide = apply(QuantizeStatic, model, folder, SMALL, reduce_range=False)
    return str(proposed), relative_l2(model, narrow.model, SMALL[0]), relative_l2(model, wide.model, SMALL[0])


_CONVOLUTIONS = {
    "padding around a map as small as one number": ([1, 1], [3, 3], {"pads": [1, 1, 1, 1]}),
    "padding on one side": ([7, 2], [4, 3], {"pads": [0, 2, 3, 0]}),
    "strides and dilations": ([9, 8], [3, 2], {"pads": [2, 1, 2, 0], "strides": [2, 3], "dilations": [2, 1]}),
    "strides that leave a rest": ([8, 8], [3, 3], {"strides": [3, 2]}),
    "groups": ([5, 6], [3, 3], {"pads": [1, 1, 1, 1], "group": 2}),
    "SAME_UPPER": ([2, 7], [3, 4], {"auto_pad": "SAME_UPPER", "strides": [1, 2]}),
    "SAME_LOWER": ([2, 7], [4, 3], {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    "VALID": ([5, 6], [3, 2], {"auto_pad": "VALID"}),
    "no padding": ([6, 5], [3, 2], {}),
    "one axis": ([3], [5], {"pads": [2, 2], "strides": [2]}),
    "three axes": ([1, 4, 3], [2, 3, 3], {"pads": [1, 1, 1, 0, 1, 1], "strides": [1, 2, 1]}),
}


def convolution(folder: Path, size: list[int], kernel: list[int], attributes: dict[str, Any]) -> Model:
    """A Conv of four channels and six filters on two images of this size."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", **attributes)
    weight = random_weight(6, 4 // attributes.get("group", 1), *kernel, seed=1)
    axes = [f"axis{number}" for number in range(len(size))]
    return build(folder, [node], {"w": weight}, {"x": [2, 4, *size]}, {"y": [2, 6, *axes]}, opset=18)


@pytest.mark.parametrize("case", _CONVOLUTIONS)
def test_convolutions_are_judged_on_windows_that_they_multiply_and_on_all_of_them(case: str, tmp_path: Path) -> None:
    size, kernel, attributes = _CONVOLUTIONS[case]
    model, image = convolution(tmp_path, size, kernel, attributes), random_weight(2, 4, *size)
    session = ort.InferenceSession(str(model.path), providers=["CPUExecutionProvider"])
    outputs = np.moveaxis(np.asarray(session.run(None, {"x": image})[0]), 1, -1).reshape(-1, 6)
    conv = model.ir().graph[0]
    parts = list(judged_convolution(conv, "conv", (1.0, 0), seed=0).parts(image))
    assert len(parts) == attributes.get("group", 1)
    sums = np.concatenate([rows @ weight for rows, weight in parts], axis=1)
    places = np.abs(sums[:, None] - outputs).max(axis=2)
    assert places.min(axis=1).max() < 1e-5, "a window that the convolution does not multiply"
    many = windows(image, Geometry.of(conv, kernel), 40 * len(outputs), seed=0)
    found = np.unique(many.reshape(len(many), -1).round(6), axis=0)
    assert len(found) == len(outputs), "a place is never drawn, or two are the same"


def test_no_window_comes_of_a_map_that_is_smaller_than_the_kernel_with_its_padding() -> None:
    conv = ir.node("Conv", [], {"pads": [1, 0, 1, 0]})
    judged = Geometry.of(conv, (10, 2))
    assert windows(random_weight(2, 3, 7, 8), judged, 5, seed=0).shape == (0, 20, 3)
    assert windows(random_weight(2, 3, 8, 8), judged, 5, seed=0).shape == (5, 20, 3)


SMALL = [{"x": random_weight(1, 32, 2, 1) + np.float32(3)}]


def small_map(folder: Path) -> Model:
    """A convolution of large numbers, padded around a map of two by one."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Conv", ["s", "w"], ["y"], name="conv", pads=[1, 1, 1, 1]),
    ]
    weight = np.abs(random_weight(8, 32, 3, 3)) + np.float32(0.5)
    return build(folder, nodes, {"w": weight}, {"x": [1, 32, 2, 1]}, {"y": [1, 8, 2, 1]})


def test_a_map_smaller_than_its_kernel_is_judged_in_its_padding(tmp_path: Path) -> None:
    result = apply(QuantizeStatic, small_map(tmp_path), tmp_path, SMALL, reduce_range="saturating")
    assert result.counts["with 7-bit weights"] == 1


def test_a_bit_is_given_only_where_it_is_closer() -> None:
    weight = np.abs(random_weight(64, 16)) + np.float32(0.5)
    large = np.random.default_rng(0).uniform(3, 4, (8, 64)).astype(np.float32)
    assert narrower_is_closer(large, weight, 4 / 255, 0)
    assert not narrower_is_closer(large, weight, 16 / 255, 0)


def test_no_bit_is_given_for_a_pair_that_hardly_saturates() -> None:
    weight = np.abs(random_weight(64, 16)) + np.float32(0.5)
    weight[:2] = weight.max(axis=0)
    rows = np.random.default_rng(0).uniform(0, 96, (8, 64)).astype(np.float32).round()
    rows[0, :2] = 130
    assert lost_to_saturation(rows.astype(np.int32), np.full((64, 16), 127, np.int8)).any()
    assert not narrower_is_closer(rows, weight, 1.0, 0)


def two_products(folder: Path) -> Model:
    """One of large numbers alone, and one where each column has a single large weight."""
    light = random_weight(64, 64, seed=2) / np.float32(8)
    light[0], light[1] = 1, 0
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("MatMul", ["s", "heavy"], ["h"], name="heavy_product"),
        helper.make_node("MatMul", ["x", "light"], ["l"], name="light_product"),
        helper.make_node("Add", ["h", "l"], ["y"]),
    ]
    weights = {"heavy": np.abs(random_weight(64, 64)) + np.float32(0.5), "light": light}
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", 64]})


SAMPLES = [{"x": np.random.default_rng(1).normal(0, 1, (32, 64)).astype(np.float32)}]


def stored_bits(model: Model, weight: str) -> int:
    """The largest integer of a weight."""
    found = next(one for one in proto(model).graph.initializer if one.name.startswith(f"{weight}_quantized"))
    return int(np.abs(numpy_helper.to_array(found, str(model.path.parent)).astype(int)).max())


@pytest.mark.parametrize("pass_class", [QuantizeDynamic, QuantizeStatic])
def test_only_the_product_that_saturates_gets_seven_bits(pass_class: Any, tmp_path: Path) -> None:
    model = two_products(tmp_path)
    options = {"reduce_range": "saturating"}
    result = apply(pass_class, model, tmp_path, SAMPLES, **options)
    assert result.counts["with 7-bit weights"] == 1
    assert (stored_bits(result.model, "heavy"), stored_bits(result.model, "light")) == (63, 127)
    everywhere = apply(pass_class, model, tmp_path, SAMPLES, reduce_range=True)
    assert everywhere.counts["with 7-bit weights"] == 2
    assert stored_bits(everywhere.model, "light") == 63


def test_what_cannot_be_judged_gets_seven_bits(tmp_path: Path) -> None:
    broken = [{"x": np.full((2, 64), np.nan, np.float32)}]
    for samples in (broken, []):
        result = apply(QuantizeDynamic, two_products(tmp_path), tmp_path, samples, reduce_range="saturating")
        assert result.counts["with 7-bit weights"] == 2


def test_convolutions_are_judged_too_but_not_depthwise_ones(tmp_path: Path) -> None:
    """Kernels of one channel a group saturate unless each group has one filter."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node("Conv", ["s", "full"], ["a"], name="full_conv"),
        helper.make_node("Conv", ["a", "single"], ["b"], name="single_conv", group=8),
        helper.make_node("Sigmoid", ["b"], ["t"]),
        helper.make_node("Conv", ["t", "double"], ["y"], name="double_conv", group=8),
    ]
    weights = {
        "full": np.abs(random_weight(8, 8, 3, 3)) + np.float32(0.5),
        "single": np.abs(random_weight(8, 1, 3, 3)) + np.float32(0.5),
        "double": np.abs(random_weight(16, 1, 3, 3)) + np.float32(0.5),
    }
    model = build(tmp_path, nodes, weights, {"x": [1, 8, 12, 12]}, {"y": [1, 16, 6, 6]})
    samples = [{"x": random_weight(1, 8, 12, 12) + np.float32(3)}]
    result = apply(QuantizeStatic, model, tmp_path, samples, reduce_range="saturating")
    assert result.counts["with 7-bit weights"] == 2
    assert [stored_bits(result.model, name) for name in weights] == [63, 127, 63]


@pytest.mark.parametrize(
    ("processor", "proposed"), [(AVX2, "saturating"), (AVX512, "saturating"), (VNNI, False), (ARM, False)]
)
@pytest.mark.parametrize("pass_class", [QuantizeDynamic, QuantizeStatic])
def test_the_processor_decides_what_is_proposed(
    processor: Processor, proposed: object, pass_class: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "this_processor", lambda: processor)
    options = list(pass_class().candidates(two_products(tmp_path), CPU, context(tmp_path, SAMPLES)))
    assert options
    assert {one.reduce_range for one in options} == {proposed}


def test_unsigned_weights_need_no_bit_less(tmp_path: Path) -> None:
    result = apply(QuantizeStatic, two_products(tmp_path), tmp_path, SAMPLES, reduce_range=True, weights="uint8")
    assert result.counts["with 7-bit weights"] == 0
