"""``ort.convert-float16``: what stays in float32, and the reason that is given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from float16_cases import CLOSE, FEEDS, converted, layers, types_of
from onnx import TensorProto, helper
from ort_models import CPU, apply, context, operators, parsed, random_weight, relative_l2, run
from packaging.version import Version

from optim import Model, PassResult, Target
from optim.options import parse_options
from optim_plugins.ort.graph.float_values import infer_types
from optim_plugins.ort.kernels import has_kernel
from optim_plugins.ort.precision import precision_plan
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.precision.convert_precision import can_convert
from optim_plugins.ort.precision.precision_plan import Obstacle, make_plan
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow


def test_a_node_that_goes_beyond_the_range_on_the_samples_stays_float32_with_what_reads_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"),
        helper.make_node("Mul", ["p", "p"], ["s"], name="square"),
        helper.make_node("Sqrt", ["s"], ["r"], name="root"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="last"),
    ]
    model = layers(tmp_path, nodes, {"w": random_weight(64, 64)})
    large = {"x": FEEDS["x"] * 100}
    result = converted(model, tmp_path, large)
    assert result.counts["nodes left in float32"] == 2
    assert "2 nodes: its numbers go beyond 65504" in result.notes[0]
    assert relative_l2(model, result.model, large) < CLOSE
    blind = apply(ConvertFloat16, model, tmp_path)
    assert "ranges were not measured: the model ran on no sample" in blind.notes
    assert blind.counts["nodes left in float32"] == 0


def test_a_weight_that_rounding_destroys_keeps_its_node_in_float32(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Mul", ["p", "tiny"], ["q"]),
        helper.make_node("MatMul", ["q", "v"], ["y"]),
    ]
    weights = {"w": random_weight(64, 64), "tiny": random_weight(64) * 1e-7, "v": random_weight(64, 64) * 1e7}
    model = layers(tmp_path, nodes, weights)
    result = converted(model, tmp_path)
    assert result.counts["nodes left in float32"] == 2
    assert relative_l2(model, result.model, FEEDS) < CLOSE


def test_what_keeps_a_number_from_being_zero_still_does(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Abs", ["p"], ["a"]),
        helper.make_node("Add", ["a", "epsilon"], ["e"]),
        helper.make_node("Div", ["p", "e"], ["y"]),
    ]
    weights = {"w": random_weight(64, 64), "epsilon": np.float32(1e-12)}
    model = layers(tmp_path, nodes, weights)
    result = converted(model, tmp_path)
    assert result.counts["nodes left in float32"] == 0
    assert not run(result.model, {"x": np.zeros((1, 64), np.float32)})["y"].any()


def test_indices_and_angles_are_computed_in_float32(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0, name="count"),
        helper.make_node("Mul", ["s", "scale"], ["f"], name="place"),
        helper.make_node("Cast", ["f"], ["i"], to=TensorProto.INT64, name="index"),
        helper.make_node("Gather", ["table", "i"], ["g"], name="look"),
        helper.make_node("Mul", ["x", "scale"], ["angle"], name="turn"),
        helper.make_node("Sin", ["angle"], ["wave"], name="sine"),
        helper.make_node("Add", ["wave", "g"], ["h"], name="join"),
        helper.make_node("MatMul", ["h", "w"], ["y"], name="dense"),
    ]
    weights = {"scale": np.float32(1.0), "table": random_weight(5000, 64), "w": random_weight(64, 64)}
    model = layers(tmp_path, nodes, weights)
    feeds = {"x": np.full((1, 64), 64.25, np.float32)}  # the index 4112 and the angle are not float16 numbers
    result = converted(model, tmp_path, feeds)
    assert {name for name, kind in types_of(result.model).items() if kind == TensorProto.FLOAT16} >= {"g", "h"}
    assert relative_l2(model, result.model, feeds) < CLOSE


def test_names_to_keep_stay_float32(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="one"), helper.make_node("MatMul", ["p", "v"], ["y"])]
    model = layers(tmp_path, nodes, {"w": random_weight(64, 64), "v": random_weight(64, 64)})
    assert ConvertFloat16().keepable(model, parse_options(ConvertFloat16, {})) == ["one", "y"]
    result = converted(model, tmp_path, keep=("one", "three"))
    assert operators(result.model) == ["MatMul", "Cast", "MatMul", "Cast"]
    assert "keep names no node: three" in result.notes
    assert not converted(model, tmp_path, keep=("one", "y")).changed


def test_an_opset_without_the_type_is_declined_with_what_to_do(tmp_path: Path) -> None:
    model = layers(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)}, opset=10)
    reason = "the model has opset 10, float16 needs 11: --with ort.convert-opset"
    assert ConvertFloat16().applicable(model, CPU).reason == reason


def test_a_processor_without_kernels_is_told_so_unless_size_is_what_counts(tmp_path: Path) -> None:
    model = layers(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    said = ConvertFloat16().worth_trying(model, CPU, "latency")
    assert ConvertFloat16().applicable(model, CPU)
    assert said.yes is has_kernel(CPU.provider, "", "MatMul", 13, {"T": "tensor(float16)"})
    if not said.yes:
        assert "known not to have a fast kernel on this machine" in said.reason
    assert ConvertFloat16().worth_trying(model, CPU, "size")
    gpu = Target("gpu", "ort", "TensorrtExecutionProvider")
    assert ConvertFloat16().worth_trying(model, gpu, "latency")
    assert [one.weights_only for one in ConvertFloat16().candidates(model, gpu, context(tmp_path))] == [False]


def _on_samples(model: Model, folder: Path, *samples: Mapping[str, Any]) -> PassResult:
    asked = replace(context(folder), samples=lambda: iter(samples))
    return ConvertFloat16().apply(model, parse_options(ConvertFloat16, {}), asked)


def test_a_sample_that_the_model_refuses_is_named_in_the_notes(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")]
    model = layers(tmp_path, nodes, {"w": random_weight(64, 64)})
    wrong = {"x": np.zeros((7, 32), np.float32)}
    (note,) = (note for note in _on_samples(model, tmp_path, FEEDS, wrong).notes if "ranges" in note)
    assert note.startswith("ranges were measured on 1 of 2 samples: ")
    assert "64" in note
    (note,) = (note for note in _on_samples(model, tmp_path, wrong).notes if "ranges" in note)
    assert note.startswith("ranges were not measured: the model ran on no sample: ")
    assert not [note for note in _on_samples(model, tmp_path, FEEDS).notes if "ranges" in note]


def test_a_plan_tells_missing_kernels_and_what_goes_with_its_neighbours_from_other_reasons(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"], name="moves"),
        helper.make_node("MatMul", ["r", "w"], ["s"], name="dense"),
        helper.make_node("Sin", ["s"], ["y"], name="angle"),
    ]
    weights = {"w": random_weight(64, 64), "flat": np.array([-1, 64], np.int64)}
    graph = layers(tmp_path, nodes, weights).ir()
    infer_types(graph)
    found = make_plan(graph, Narrow.BFLOAT16, "CPUExecutionProvider").why_not
    assert {why.obstacle for why in found} == {Obstacle.KERNEL, Obstacle.NODE, Obstacle.OTHERS}
    assert [why.text for why in found if why.obstacle is Obstacle.NODE] == ["Sin is not for 16 bits"]
    assert [why.text for why in found if why.obstacle is Obstacle.OTHERS] == ["its neighbours are in float32"]


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("y = ScatterND <reduction = 'add'> (p, at, p)", "ScatterND with a reduction is not for 16 bits"),
        ("y = ScatterElements <reduction = 'max'> (p, at, p)", "ScatterElements with a reduction is not for 16 bits"),
        ("y = Dropout (p, half, yes)", "Dropout is not for 16 bits"),
        (
            "list = SequenceConstruct (p) y = SequenceAt (list, one)",
            "SequenceConstruct handles a sequence or an optional",
        ),
    ],
)
def test_what_has_no_16_bits_is_left_in_float32_with_the_reason(nodes: str, reason: str, tmp_path: Path) -> None:
    text = f"""<opset_import: ["": 18]> g (float[2, 2] x) => (float[2, 2] y)
        <float[2, 2] w = {{1, 2, 3, 4}}, {_indices(nodes)}, float half = {{0.5}}, bool yes = {{1}}, int64 one = {{0}}>
        {{ p = MatMul (x, w) {nodes} }}"""
    model = parsed(tmp_path, text.replace("'", '"'))
    feeds = {"x": random_weight(2, 2)}
    result = converted(model, tmp_path, feeds)
    assert reason in " ".join(result.notes)
    outputs = run(result.model, feeds)
    assert {name: array.dtype for name, array in outputs.items()} == {"y": np.float32}
    if "Dropout" not in nodes:
        assert relative_l2(model, result.model, feeds) < CLOSE


def _indices(nodes: str) -> str:
    return "int64[2, 1] at = {0, 1}" if "ScatterND" in nodes else "int64[2, 2] at = {0, 0, 1, 1}"


def test_numbers_that_are_looked_at_as_bits_stay_float32(tmp_path: Path) -> None:
    text = """<opset_import: ["": 26]> g (float[2, 2] x) => (float[2, 2] y, int32[2, 2] bits)
    <float[2, 2] w = {1, 2, 3, 4}> {
        p = MatMul (x, w)
        y = Relu (p)
        bits = BitCast <to = 6> (p)
    }"""
    model = parsed(tmp_path, text)
    result = converted(model, tmp_path, {"x": np.ones((2, 2), np.float32)})
    assert run(result.model, {"x": np.ones((2, 2), np.float32)})["bits"].dtype == np.int32


def test_a_normalization_that_the_runtime_writes_out_stays_float32(tmp_path: Path) -> None:
    text = """<opset_import: ["": 13]> g (float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
        p = MatMul (x, w)
        y = MeanVarianceNormalization (p)
    }"""
    model = parsed(tmp_path, text)
    result = converted(model, tmp_path, {"x": random_weight(1, 2, 2, 2)})
    assert "MeanVarianceNormalization is not for 16 bits" in " ".join(result.notes)
    assert relative_l2(model, result.model, {"x": random_weight(1, 2, 2, 2)}) < CLOSE * 10


def _normalization(x: str, y: str) -> list[Any]:
    return [
        helper.make_node("Pow", [x, "two"], [f"{y}_square"]),
        helper.make_node("ReduceMean", [f"{y}_square"], [f"{y}_mean"], axes=[-1], keepdims=1),
        helper.make_node("Add", [f"{y}_mean", "epsilon"], [f"{y}_total"]),
        helper.make_node("Sqrt", [f"{y}_total"], [f"{y}_root"]),
        helper.make_node("Div", [x, f"{y}_root"], [f"{y}_normal"]),
        helper.make_node("Mul", [f"{y}_normal", f"{y}_scale"], [y]),
    ]


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3])
def test_a_normalization_keeps_its_own_epsilon(tmp_path: Path, epsilon: float, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [*_normalization("x", "p"), *_normalization("p", "y")]
    scales = {name: np.full(64, 0.01, np.float32) for name in ("p_scale", "y_scale")}
    numbers = {"two": np.array([2], np.float32), "epsilon": np.array([epsilon], np.float32)}
    model = layers(tmp_path, nodes, {**scales, **numbers})
    small = {"x": FEEDS["x"] / np.abs(FEEDS["x"]).max() * 0.01}
    result = converted(model, tmp_path, small)
    assert "10 nodes: onnxruntime would take another epsilon" in result.notes[0]
    assert relative_l2(model, result.model, small) < CLOSE
    monkeypatch.setattr(precision_plan, "misread_epsilons", lambda _graph: set())
    misread = converted(model, tmp_path, small)
    reads = relative_l2(model, misread.model, small) < CLOSE
    assert reads == (Version(onnxruntime.__version__) >= Version("1.32")), (
        "misread_epsilons.py says which runtimes read it"
    )


def test_whether_there_is_anything_to_convert_takes_a_look_at_one_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    fit = precision_plan.fit
    monkeypatch.setattr(precision_plan, "fit", lambda array, narrow: looked.append(1) or fit(array, narrow))
    ends = ["x", "a", "b", "c", "y"]
    nodes = [helper.make_node("MatMul", [ends[i], f"w{i}"], [ends[i + 1]], name=f"m{i}") for i in range(4)]
    good, bad = random_weight(64, 64), random_weight(64, 64) * np.float32(1e6)
    some = layers(tmp_path, nodes, {"w0": bad, "w1": good, "w2": good, "w3": good})
    assert can_convert(some, CPU, Narrow.FLOAT16)
    assert len(looked) == 2
    looked.clear()
    none = layers(tmp_path, nodes, {f"w{i}": bad for i in range(4)})
    assert "does not survive rounding" in can_convert(none, CPU, Narrow.FLOAT16).reason
    assert len(looked) == 4
