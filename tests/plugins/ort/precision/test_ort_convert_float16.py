"""``ort.convert-float16``: valid graphs, ranges, inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from ort_models import (
    CPU,
    EXPORTS,
    apply,
    build,
    context,
    drift,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    parsed,
    proto,
    random_weight,
    run,
)

from optim import Model, PassResult, Target
from optim._engine.compare.place import mapped_feeds, mapped_outputs
from optim.options import parse_options
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.graph.float_values import infer_types
from optim_plugins.ort.kernels import has_kernel
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.precision.precision_plan import Obstacle, make_plan
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic

_FEEDS = {"x": random_weight(7, 64, seed=9)}
_CLOSE = 3e-3
"""Drift of a few layers of normal numbers in float16, whose relative rounding error is 5e-4."""


def _model(folder: Path, nodes: list[Any], weights: Mapping[str, Any], outputs: int = 64, **options: Any) -> Model:
    return build(folder, nodes, weights, {"x": ["n", 64]}, {"y": ["n", outputs]}, **options)


def _convert(model: Model, folder: Path, feeds: Mapping[str, Any] | None = None, **options: Any) -> PassResult:
    """With samples to measure ranges on."""

    def samples() -> Iterator[Mapping[str, Any]]:
        return iter([feeds or _FEEDS])

    asked = replace(context(folder), samples=samples)
    return ConvertFloat16().apply(model, parse_options(ConvertFloat16, options), asked)


def _types(model: Model) -> dict[str, int]:
    return {value.name: value.type.tensor_type.elem_type for value in proto(model).graph.value_info}


def _weights(model: Model) -> dict[str, Any]:
    return {value.name: value for value in proto(model).graph.initializer}


def test_products_and_their_weights_become_float16_between_two_casts(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"), helper.make_node("Relu", ["p"], ["y"])]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64)})
    result = _convert(model, tmp_path)
    assert operators(result.model) == ["Cast", "MatMul", "Relu", "Cast"]
    assert {value.data_type for value in _weights(result.model).values()} == {TensorProto.FLOAT16}
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert result.counts == {"nodes in float16": 2, "weights converted": 1, "Cast added": 2, "nodes left in float32": 0}
    assert 1e-5 < drift(model, result.model, _FEEDS) < _CLOSE


def test_inputs_and_outputs_are_converted_where_asked_and_the_interface_tells_how(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    result = _convert(model, tmp_path, io="convert")
    assert operators(result.model) == ["MatMul"]
    assert [value.dtype for value in (*result.model.inputs, *result.model.outputs)] == ["float16", "float16"]
    assert result.interface is not None
    got = mapped_outputs(run(result.model, mapped_feeds(_FEEDS, [result.interface])), [result.interface])
    expected = run(model, _FEEDS)["y"]
    assert got["y"].dtype == np.float32
    assert np.linalg.norm(got["y"] - expected) < _CLOSE * np.linalg.norm(expected)


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("before", ["as exported", "fused", "quantized"])
def test_exports_stay_valid_and_near(name: str, before: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    if before == "fused":
        model = apply(FuseTransformer, model, tmp_path).model
    if before == "quantized":
        model = apply(QuantizeDynamic, model, tmp_path).model
    result = _convert(model, tmp_path, feeds_for(name))
    if not result.changed:
        assert (name.partition(".")[0], before) in {("bert", "quantized"), ("convnet", "quantized")}, result.notes
        return
    assert names_and_shapes(result.model) == names_and_shapes(model)
    bound = 0.06 if before == "quantized" else _CLOSE  # a rounded number may fall on the other side of an 8-bit step
    assert 1e-5 < drift(model, result.model, feeds_for(name)) < bound


def test_a_node_that_goes_beyond_the_range_on_the_samples_stays_float32_with_what_reads_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"),
        helper.make_node("Mul", ["p", "p"], ["s"], name="square"),
        helper.make_node("Sqrt", ["s"], ["r"], name="root"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="last"),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64)})
    large = {"x": _FEEDS["x"] * 100}
    result = _convert(model, tmp_path, large)
    assert result.counts["nodes left in float32"] == 2
    assert "2 nodes: its numbers go beyond 65504" in result.notes[0]
    assert drift(model, result.model, large) < _CLOSE
    blind = apply(ConvertFloat16, model, tmp_path)
    assert "ranges were not measured: the model ran on no sample" in blind.notes
    assert blind.counts["nodes left in float32"] == 0


def test_a_mask_of_huge_numbers_is_brought_into_the_range(tmp_path: Path) -> None:
    mask = np.zeros((64,), np.float32)
    mask[40:] = np.finfo(np.float32).min
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "mask"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64), "mask": mask})
    result = _convert(model, tmp_path)
    assert result.counts["nodes left in float32"] == 0
    everything = {"x": np.full((1, 64), -30.0, np.float32)}
    assert np.isfinite(run(result.model, everything)["y"]).all()
    assert drift(model, result.model, _FEEDS) < 3 * _CLOSE


def test_a_mask_that_is_an_input_is_bounded_before_it_is_cast(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "mask"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    shapes = {"x": ["n", 64], "mask": [1, 64]}
    model = build(tmp_path, nodes, {"w": random_weight(64, 64)}, shapes, {"y": ["n", 64]})
    feeds = {**_FEEDS, "mask": np.where(np.arange(64) < 40, 0, np.finfo(np.float32).min).astype(np.float32)[None]}
    result = _convert(model, tmp_path, feeds)
    assert operators(result.model).count("Clip") == 1
    assert "masks beyond the range brought into it: mask" in result.notes
    assert drift(model, result.model, feeds) < 3 * _CLOSE


def test_a_weight_that_rounding_destroys_keeps_its_node_in_float32(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Mul", ["p", "tiny"], ["q"]),
        helper.make_node("MatMul", ["q", "v"], ["y"]),
    ]
    weights = {"w": random_weight(64, 64), "tiny": random_weight(64) * 1e-7, "v": random_weight(64, 64) * 1e7}
    model = _model(tmp_path, nodes, weights)
    result = _convert(model, tmp_path)
    assert result.counts["nodes left in float32"] == 2
    assert drift(model, result.model, _FEEDS) < _CLOSE


def test_what_keeps_a_number_from_being_zero_still_does(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Abs", ["p"], ["a"]),
        helper.make_node("Add", ["a", "epsilon"], ["e"]),
        helper.make_node("Div", ["p", "e"], ["y"]),
    ]
    weights = {"w": random_weight(64, 64), "epsilon": np.float32(1e-12)}
    model = _model(tmp_path, nodes, weights)
    result = _convert(model, tmp_path)
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
    model = _model(tmp_path, nodes, weights)
    feeds = {"x": np.full((1, 64), 64.25, np.float32)}  # the index 4112 and the angle are not float16 numbers
    result = _convert(model, tmp_path, feeds)
    assert {name for name, kind in _types(result.model).items() if kind == TensorProto.FLOAT16} >= {"g", "h"}
    assert drift(model, result.model, feeds) < _CLOSE


def test_names_to_keep_stay_float32(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="one"), helper.make_node("MatMul", ["p", "v"], ["y"])]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64), "v": random_weight(64, 64)})
    assert ConvertFloat16().keepable(model, parse_options(ConvertFloat16, {})) == ["one", "y"]
    result = _convert(model, tmp_path, keep=("one", "three"))
    assert operators(result.model) == ["MatMul", "Cast", "MatMul", "Cast"]
    assert "keep names no node: three" in result.notes
    assert not _convert(model, tmp_path, keep=("one", "y")).changed


def test_a_value_read_in_both_types_is_cast_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        *(helper.make_node("MatMul", ["p", "w"], [f"q{i}"], name=f"wide{i}") for i in range(2)),
        helper.make_node("Sum", ["p", "q0", "q1"], ["y"], name="sum"),
    ]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64)})
    result = _convert(model, tmp_path, keep=("wide0", "wide1"))
    casts = [node.input[0] for node in proto(result.model).graph.node if node.op_type == "Cast"]
    assert len(casts) == len(set(casts))
    assert {value.data_type for value in _weights(result.model).values()} == {TensorProto.FLOAT16, TensorProto.FLOAT}
    assert drift(model, result.model, _FEEDS) < _CLOSE


def test_branches_read_the_type_they_compute_in(tmp_path: Path) -> None:
    def branch(seed: int) -> Any:
        tensor = numpy_helper.from_array(random_weight(64, 64, seed=seed), "v")
        nodes = [helper.make_node("MatMul", ["h", "v"], ["r"], name=f"inner{seed}")]
        return helper.make_graph(nodes, f"b{seed}", [], [helper.make_tensor_value_info("r", 1, None)], [tensor])

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "zero"], ["c"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch(1), else_branch=branch(2)),
    ]
    model = _model(tmp_path, nodes, {"zero": np.array(0, np.float32), "w": random_weight(64, 64)})
    result = _convert(model, tmp_path)
    assert result.counts["nodes in float16"] >= 3
    for sign in (1, -1):
        feeds = {"x": sign * np.abs(random_weight(5, 64, seed=3))}
        assert 1e-5 < drift(model, result.model, feeds) < _CLOSE


def test_an_output_that_others_read_and_an_input_that_is_an_output_keep_their_names(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("MatMul", ["p", "w"], ["y"])]
    model = build(
        tmp_path,
        nodes,
        {"w": random_weight(64, 64)},
        {"x": ["n", 64]},
        {"y": ["n", 64], "p": ["n", 64], "x": ["n", 64]},
    )
    for io in ("keep", "convert"):
        result = _convert(model, tmp_path, io=io)
        assert [value.name for value in result.model.outputs] == ["y", "p", "x"]
        assert list(run(result.model, mapped_feeds(_FEEDS, [result.interface] if result.interface else ())))
    assert drift(model, _convert(model, tmp_path).model, _FEEDS) < _CLOSE


def test_weights_alone_are_stored_in_half_the_bytes(tmp_path: Path) -> None:
    weights = {"w": random_weight(64, 64), "v": random_weight(64, 64) * 1e-7, "b": random_weight(64)}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
    model = _model(tmp_path, nodes, weights)
    result = _convert(model, tmp_path, weights_only=True)
    assert result.counts == {"weights converted": 1, "weights left in float32": 1}
    assert sorted(operators(result.model)) == ["Cast", "Gemm", "MatMul"]
    assert 1e-5 < drift(model, result.model, _FEEDS) < 1e-3
    assert ConvertFloat16().keepable(model, parse_options(ConvertFloat16, {"weights_only": True})) == []


def test_weights_listed_among_the_inputs_are_converted_too(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = _model(tmp_path, [node], {"w": random_weight(64, 64)}, weights_are_inputs=True)
    result = _convert(model, tmp_path)
    assert [value.name for value in proto(result.model).graph.input] == ["x"]
    assert drift(model, result.model, _FEEDS) < _CLOSE


def test_a_second_time_there_is_nothing_left(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    once = _convert(model, tmp_path)
    again = _convert(once.model, tmp_path)
    assert not again.changed
    assert "nothing is left to convert" in again.notes[-1]


def test_an_opset_without_the_type_is_declined_with_what_to_do(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)}, opset=10)
    reason = "the model has opset 10, float16 needs 11: --with ort.convert-opset"
    assert ConvertFloat16().applicable(model, CPU).reason == reason


def test_a_processor_without_kernels_is_told_so_unless_size_is_what_counts(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    said = ConvertFloat16().worth_trying(model, CPU, "latency")
    assert ConvertFloat16().applicable(model, CPU)
    assert said.yes is has_kernel(CPU.provider, "", "MatMul", 13, {"T": "tensor(float16)"})
    if not said.yes:
        assert "known not to have a fast kernel on this machine" in said.reason
    assert ConvertFloat16().worth_trying(model, CPU, "size")
    gpu = Target("gpu", "ort", "TensorrtExecutionProvider")
    assert ConvertFloat16().worth_trying(model, gpu, "latency")
    assert [one.weights_only for one in ConvertFloat16().candidates(model, gpu, context(tmp_path))] == [False]


def test_the_input_model_is_not_touched(tmp_path: Path) -> None:
    model = _model(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    files = {path: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    result = _convert(model, tmp_path)
    assert {path: path.read_bytes() for path in files} == files
    made = {path.name for path in (tmp_path / "store").iterdir()} - {path.name for path in files}
    assert made == {result.model.path.name, *(name for name in made if name.endswith(".data"))}


def _on_samples(model: Model, folder: Path, *samples: Mapping[str, Any]) -> PassResult:
    asked = replace(context(folder), samples=lambda: iter(samples))
    return ConvertFloat16().apply(model, parse_options(ConvertFloat16, {}), asked)


def test_a_sample_that_the_model_refuses_is_named_in_the_notes(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")]
    model = _model(tmp_path, nodes, {"w": random_weight(64, 64)})
    wrong = {"x": np.zeros((7, 32), np.float32)}
    (note,) = (note for note in _on_samples(model, tmp_path, _FEEDS, wrong).notes if "ranges" in note)
    assert note.startswith("ranges were measured on 1 of 2 samples: ")
    assert "64" in note
    (note,) = (note for note in _on_samples(model, tmp_path, wrong).notes if "ranges" in note)
    assert note.startswith("ranges were not measured: the model ran on no sample: ")
    assert not [note for note in _on_samples(model, tmp_path, _FEEDS).notes if "ranges" in note]


def test_a_plan_tells_missing_kernels_and_what_goes_with_its_neighbours_from_other_reasons(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"], name="moves"),
        helper.make_node("MatMul", ["r", "w"], ["s"], name="dense"),
        helper.make_node("Sin", ["s"], ["y"], name="angle"),
    ]
    weights = {"w": random_weight(64, 64), "flat": np.array([-1, 64], np.int64)}
    graph = _model(tmp_path, nodes, weights).ir()
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
    result = _convert(model, tmp_path, feeds)
    assert reason in " ".join(result.notes)
    outputs = run(result.model, feeds)
    assert {name: array.dtype for name, array in outputs.items()} == {"y": np.float32}
    if "Dropout" not in nodes:
        assert drift(model, result.model, feeds) < _CLOSE


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
    result = _convert(model, tmp_path, {"x": np.ones((2, 2), np.float32)})
    assert run(result.model, {"x": np.ones((2, 2), np.float32)})["bits"].dtype == np.int32


def test_a_normalization_that_the_runtime_writes_out_stays_float32(tmp_path: Path) -> None:
    text = """<opset_import: ["": 13]> g (float[1, 2, 2, 2] x) => (float[1, 2, 2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> {
        p = MatMul (x, w)
        y = MeanVarianceNormalization (p)
    }"""
    model = parsed(tmp_path, text)
    result = _convert(model, tmp_path, {"x": random_weight(1, 2, 2, 2)})
    assert "MeanVarianceNormalization is not for 16 bits" in " ".join(result.notes)
    assert drift(model, result.model, {"x": random_weight(1, 2, 2, 2)}) < _CLOSE * 10


def test_weights_of_branches_are_not_kept_twice(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(random_weight(64, 64), "w")
    shape = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in ("t", "e")]
    yes = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["t"])], "yes", [], shape[:1], [weight])
    no = helper.make_graph([helper.make_node("Neg", ["x"], ["e"])], "no", [], shape[1:])
    nodes = [
        helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0),
        helper.make_node("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        helper.make_node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
    ]
    model = _model(tmp_path, nodes, {})
    for options in ({"weights_only": True}, {"weights_only": False}):
        result = _convert(model, tmp_path, **options)
        branches = [part for part in result.model.ir().graphs() if part.name == "yes"]
        stored = [value.dtype.name for part in branches for value in part.initializers.values() if value.dtype]
        assert stored == ["FLOAT16"]
        assert drift(model, result.model, _FEEDS) < _CLOSE
