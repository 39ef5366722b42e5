"""``ort.convert-float16``: valid graphs, ranges, inputs and outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float16_cases import CLOSE, FEEDS, converted, layers, weights_of
from onnx import TensorProto, helper, numpy_helper
from ort_models import (
    EXPORTS,
    apply,
    build,
    export,
    feeds_for,
    names_and_shapes,
    operators,
    proto,
    random_weight,
    relative_l2,
    run,
)

from optim import SessionConfig
from optim._engine.compare.place import mapped_feeds, mapped_outputs
from optim.options import parse_options
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic

pytestmark = pytest.mark.slow


def test_products_and_their_weights_become_float16_between_two_casts(tmp_path: Path) -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="dense"), helper.make_node("Relu", ["p"], ["y"])]
    model = layers(tmp_path, nodes, {"w": random_weight(64, 64)})
    result = converted(model, tmp_path)
    assert operators(result.model) == ["Cast", "MatMul", "Relu", "Cast"]
    assert {value.data_type for value in weights_of(result.model).values()} == {TensorProto.FLOAT16}
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert result.counts == {"nodes in float16": 2, "weights converted": 1, "Cast added": 2, "nodes left in float32": 0}
    assert 1e-5 < relative_l2(model, result.model, FEEDS) < CLOSE


def test_ranges_are_measured_under_the_settings_of_the_model(tmp_path: Path) -> None:
    model = layers(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    assert not converted(model, tmp_path).notes
    refused = replace(model, session=SessionConfig(session_options={"intra_op_num_threads": "none"}))
    (note,) = converted(refused, tmp_path).notes
    assert note.startswith("ranges were not measured: SessionOptions.intra_op_num_threads does not take 'none'")


def test_inputs_and_outputs_are_converted_where_asked_and_the_interface_tells_how(tmp_path: Path) -> None:
    model = layers(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    result = converted(model, tmp_path, io="convert")
    assert operators(result.model) == ["MatMul"]
    assert [value.dtype for value in (*result.model.inputs, *result.model.outputs)] == ["float16", "float16"]
    assert result.interface is not None
    got = mapped_outputs(run(result.model, mapped_feeds(FEEDS, [result.interface])), [result.interface])
    expected = run(model, FEEDS)["y"]
    assert got["y"].dtype == np.float32
    assert np.linalg.norm(got["y"] - expected) < CLOSE * np.linalg.norm(expected)


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("before", ["as exported", "fused", "quantized"])
def test_exports_stay_valid_and_near(name: str, before: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    if before == "fused":
        model = apply(FuseTransformer, model, tmp_path).model
    if before == "quantized":
        model = apply(QuantizeDynamic, model, tmp_path).model
    result = converted(model, tmp_path, feeds_for(name))
    if not result.changed:
        assert (name.partition(".")[0], before) in {("bert", "quantized"), ("convnet", "quantized")}, result.notes
        return
    assert names_and_shapes(result.model) == names_and_shapes(model)
    bound = 0.06 if before == "quantized" else CLOSE  # a rounded number may fall on the other side of an 8-bit step
    assert 1e-5 < relative_l2(model, result.model, feeds_for(name)) < bound


def test_a_mask_of_huge_numbers_is_brought_into_the_range(tmp_path: Path) -> None:
    mask = np.zeros((64,), np.float32)
    mask[40:] = np.finfo(np.float32).min
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "mask"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    model = layers(tmp_path, nodes, {"w": random_weight(64, 64), "mask": mask})
    result = converted(model, tmp_path)
    assert result.counts["nodes left in float32"] == 0
    everything = {"x": np.full((1, 64), -30.0, np.float32)}
    assert np.isfinite(run(result.model, everything)["y"]).all()
    assert relative_l2(model, result.model, FEEDS) < 3 * CLOSE


def test_a_mask_that_is_an_input_is_bounded_before_it_is_cast(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "mask"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
    ]
    shapes = {"x": ["n", 64], "mask": [1, 64]}
    model = build(tmp_path, nodes, {"w": random_weight(64, 64)}, shapes, {"y": ["n", 64]})
    feeds = {**FEEDS, "mask": np.where(np.arange(64) < 40, 0, np.finfo(np.float32).min).astype(np.float32)[None]}
    result = converted(model, tmp_path, feeds)
    assert operators(result.model).count("Clip") == 1
    assert "masks beyond the range brought into it: mask" in result.notes
    assert relative_l2(model, result.model, feeds) < 3 * CLOSE


def test_a_value_read_in_both_types_is_cast_once(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="one"),
        *(helper.make_node("MatMul", ["p", "w"], [f"q{i}"], name=f"wide{i}") for i in range(2)),
        helper.make_node("Sum", ["p", "q0", "q1"], ["y"], name="sum"),
    ]
    model = layers(tmp_path, nodes, {"w": random_weight(64, 64)})
    result = converted(model, tmp_path, keep=("wide0", "wide1"))
    casts = [node.input[0] for node in proto(result.model).graph.node if node.op_type == "Cast"]
    assert len(casts) == len(set(casts))
    assert {value.data_type for value in weights_of(result.model).values()} == {TensorProto.FLOAT16, TensorProto.FLOAT}
    assert relative_l2(model, result.model, FEEDS) < CLOSE


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
    model = layers(tmp_path, nodes, {"zero": np.array(0, np.float32), "w": random_weight(64, 64)})
    result = converted(model, tmp_path)
    assert result.counts["nodes in float16"] >= 3
    for sign in (1, -1):
        feeds = {"x": sign * np.abs(random_weight(5, 64, seed=3))}
        assert 1e-5 < relative_l2(model, result.model, feeds) < CLOSE


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
        result = converted(model, tmp_path, io=io)
        assert [value.name for value in result.model.outputs] == ["y", "p", "x"]
        assert list(run(result.model, mapped_feeds(FEEDS, [result.interface] if result.interface else ())))
    assert relative_l2(model, converted(model, tmp_path).model, FEEDS) < CLOSE


def test_weights_alone_are_stored_in_half_the_bytes(tmp_path: Path) -> None:
    weights = {"w": random_weight(64, 64), "v": random_weight(64, 64) * 1e-7, "b": random_weight(64)}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
    model = layers(tmp_path, nodes, weights)
    result = converted(model, tmp_path, weights_only=True)
    assert result.counts == {"weights converted": 1, "weights left in float32": 1}
    assert sorted(operators(result.model)) == ["Cast", "Gemm", "MatMul"]
    assert 1e-5 < relative_l2(model, result.model, FEEDS) < 1e-3
    assert ConvertFloat16().keepable(model, parse_options(ConvertFloat16, {"weights_only": True})) == []


def test_weights_listed_among_the_inputs_are_converted_too(tmp_path: Path) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = layers(tmp_path, [node], {"w": random_weight(64, 64)}, weights_are_inputs=True)
    result = converted(model, tmp_path)
    assert [value.name for value in proto(result.model).graph.input] == ["x"]
    assert relative_l2(model, result.model, FEEDS) < CLOSE


def test_a_second_time_there_is_nothing_left(tmp_path: Path) -> None:
    model = layers(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    once = converted(model, tmp_path)
    again = converted(once.model, tmp_path)
    assert not again.changed
    assert "nothing is left to convert" in again.notes[-1]


def test_the_input_model_is_not_touched(tmp_path: Path) -> None:
    model = layers(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": random_weight(64, 64)})
    files = {path: path.read_bytes() for path in (tmp_path / "store").iterdir()}
    result = converted(model, tmp_path)
    assert {path: path.read_bytes() for path in files} == files
    made = {path.name for path in (tmp_path / "store").iterdir()} - {path.name for path in files}
    assert made == {result.model.path.name, *(name for name in made if name.endswith(".data"))}


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
    model = layers(tmp_path, nodes, {})
    for options in ({"weights_only": True}, {"weights_only": False}):
        result = converted(model, tmp_path, **options)
        branches = [part for part in result.model.ir().graphs() if part.name == "yes"]
        stored = [value.dtype.name for part in branches for value in part.initializers.values() if value.dtype]
        assert stored == ["FLOAT16"]
        assert relative_l2(model, result.model, FEEDS) < CLOSE
