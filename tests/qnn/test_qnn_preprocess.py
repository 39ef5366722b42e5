"""``qnn.preprocess``: fixed shapes, folding, fusions, channels-last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from onnx import helper
from qnn_models import (
    apply,
    build,
    context,
    images,
    normal,
    on_htp,
    operators,
    relative_l2,
    run,
    run_on_htp,
    small_net,
    stored,
)

from optim import ExitStatus, OptimError
from optim._engine.compare.place import mapped_feeds, mapped_outputs
from optim.options import parse_options
from optim_qnn.preprocess.preprocess import Preprocess
from optim_testing import models

ROOT = np.sqrt(2).astype(np.float32)


def sentences(count: int = 3, length: int = 16):
    rng = np.random.default_rng(3)
    mask = np.ones((1, length), np.int64)
    mask[0, -3:] = 0
    return [{"input_ids": rng.integers(0, 50, (1, length)), "attention_mask": mask} for _ in range(count)]


def gelu_net(folder: Path):
    """x * (1 + Erf(x / sqrt(2))) / 2 after a product."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name=""),
        helper.make_node("Div", ["m", "root"], ["d"], name=""),
        helper.make_node("Erf", ["d"], ["e"], name=""),
        helper.make_node("Add", ["e", "one"], ["a"], name=""),
        helper.make_node("Mul", ["m", "a"], ["p"], name=""),
        helper.make_node("Mul", ["p", "half"], ["y"], name=""),
    ]
    weights = {"w": normal(np.random.default_rng(0), 8, 8), "root": ROOT, "one": np.float32(1), "half": np.float32(0.5)}
    return build(folder, nodes, {"x": [2, 8]}, {"y": [2, 8]}, weights)


def test_an_attribute_that_onnx_does_not_know_is_refused_by_name_before_anything_is_rewritten(tmp_path: Path) -> None:
    model = gelu_net(tmp_path)
    graph = model.ir()
    next(node for node in graph.graph if node.op_type == "Erf").attributes.add(ir.AttrInt64("fast", 1))
    with pytest.raises(OptimError, match="Unrecognized attribute: fast for operator Erf"):
        apply(Preprocess, context(tmp_path).save(graph, model), tmp_path)


def test_an_encoder_gets_the_shape_of_its_samples_and_says_so(tmp_path: Path) -> None:
    model, given = stored(models.encoder(tmp_path), tmp_path), sentences()
    result = apply(Preprocess, model, tmp_path, given)
    assert result.changed
    expected = "dynamic inputs are fixed as in the samples: input_ids 1x16, attention_mask 1x16"
    assert result.notes == (expected,)
    assert not any(info.is_dynamic for info in (*result.model.inputs, *result.model.outputs))
    assert relative_l2(run(model, given[0]), run(result.model, given[0])) < 1e-5


def test_shapes_that_were_asked_for_go_before_the_samples(tmp_path: Path) -> None:
    model, given = stored(models.encoder(tmp_path), tmp_path), sentences(length=8)
    shapes = {"input_ids": [1, 8], "attention_mask": [1, 8]}
    result = apply(Preprocess, model, tmp_path, given, shapes=shapes)
    assert "as asked: input_ids 1x8" in result.notes[0]


def test_shapes_that_nobody_said_are_refused_before_anything_runs(tmp_path: Path) -> None:
    model = stored(models.encoder(tmp_path), tmp_path)
    with pytest.raises(OptimError, match="none are given") as caught:
        Preprocess().refuse_without_data(parse_options(Preprocess, {}), model)
    assert caught.value.status is ExitStatus.USAGE
    shapes = {"input_ids": [1, 8], "attention_mask": [1, 8]}
    Preprocess().refuse_without_data(parse_options(Preprocess, {"shapes": shapes}), model)


def test_a_dynamic_model_without_data_is_an_error_that_names_the_inputs(tmp_path: Path) -> None:
    model = stored(models.encoder(tmp_path), tmp_path)
    made_up = replace(context(tmp_path, sentences()), feeds_given=False)
    with pytest.raises(OptimError, match="HTP needs fixed shapes") as caught:
        Preprocess().apply(model, parse_options(Preprocess, {}), made_up)
    assert caught.value.reference == "dynamic-without-data"
    assert "input_ids, attention_mask" in caught.value.cause
    assert caught.value.status is ExitStatus.USAGE


def test_samples_of_several_shapes_are_an_error_that_names_both(tmp_path: Path) -> None:
    model = stored(models.encoder(tmp_path), tmp_path)
    with pytest.raises(OptimError, match="several shapes of input 'input_ids'") as caught:
        apply(Preprocess, model, tmp_path, [*sentences(1), *sentences(1, length=8)])
    assert "1x16 in the first, 1x8 in sample 2" in caught.value.cause


def test_erf_becomes_gelu_and_every_node_has_a_name_of_its_own(tmp_path: Path) -> None:
    model = gelu_net(tmp_path)
    result = apply(Preprocess, model, tmp_path)
    assert operators(result.model) == ["MatMul", "Gelu"]
    assert result.counts == {"Gelu": 1}
    names = [node.name for node in result.model.ir().graph]
    assert all(names)
    assert len(set(names)) == len(names)
    feeds = {"x": normal(np.random.default_rng(1), 2, 8)}
    assert relative_l2(run(model, feeds), run(result.model, feeds)) < 1e-6


def test_layer_normalization_is_fused_unless_that_is_switched_off(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceMean", ["x", "last"], ["m"], name="m"),
        helper.make_node("Sub", ["x", "m"], ["d"]),
        helper.make_node("Pow", ["d", "two"], ["s"]),
        helper.make_node("ReduceMean", ["s", "last"], ["v"]),
        helper.make_node("Add", ["v", "eps"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
        helper.make_node("Div", ["d", "r"], ["n"]),
        helper.make_node("Mul", ["n", "scale"], ["sc"]),
        helper.make_node("Add", ["sc", "bias"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    weights = {
        "last": np.asarray([-1]),
        "two": np.float32(2),
        "eps": np.float32(1e-5),
        "scale": normal(rng, 8),
        "bias": normal(rng, 8),
    }
    model = build(tmp_path, nodes, {"x": [2, 8]}, {"y": [2, 8]}, weights)
    fused = apply(Preprocess, model, tmp_path)
    assert operators(fused.model) == ["LayerNormalization"]
    plain = apply(Preprocess, model, tmp_path, fuse_layer_norm=False)
    assert "LayerNormalization" not in operators(plain.model)
    feeds = {"x": normal(rng, 2, 8)}
    assert relative_l2(run(model, feeds), run(fused.model, feeds)) < 1e-5


def test_a_second_time_changes_nothing_and_says_why(tmp_path: Path) -> None:
    for model, given in ((small_net(tmp_path), images(1)), (stored(models.encoder(tmp_path), tmp_path), sentences())):
        once = apply(Preprocess, model, tmp_path, given).model
        again = apply(Preprocess, once, tmp_path, given)
        assert not again.changed
        assert again.notes == ("HTP can run the graph unchanged",)


def test_a_compiled_model_is_left_alone(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = build(tmp_path, [node], {"x": [1]}, {"y": [1]})
    graph = model.ir()
    next(iter(graph.graph)).op_type = "EPContext"
    compiled = replace(model, path=model.path)
    answer = Preprocess().applicable(context(tmp_path).save(graph, compiled), context(tmp_path).target)
    assert not answer.yes
    assert "compiled" in answer.reason


@on_htp
def test_inputs_channels_last_are_compared_through_the_interface(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "k"], ["y"], name="conv", pads=[1, 1, 1, 1])
    kernel = normal(np.random.default_rng(0), 8, 3, 3, 3)
    model = build(tmp_path, [node], {"x": [1, 3, 8, 8]}, {"y": [1, 8, 8, 8]}, {"k": kernel})
    result = apply(Preprocess, model, tmp_path, channel_last_inputs=["x"], channel_last_outputs=["y"])
    assert result.model.inputs[0].shape == (1, 8, 8, 3)
    assert result.model.outputs[0].shape == (1, 8, 8, 8)
    assert result.interface is not None
    feeds = images(1)[0]
    expected = run(model, feeds)
    turned = mapped_feeds(feeds, (result.interface,))
    assert turned["x"].shape == (1, 8, 8, 3)
    assert relative_l2(expected, mapped_outputs(run(result.model, turned), (result.interface,))) < 1e-6
    assert relative_l2(expected, mapped_outputs(run_on_htp(result.model, turned), (result.interface,))) < 0.01


@pytest.mark.parametrize(
    ("options", "reference"),
    [
        ({"channel_last_inputs": ["z"]}, "unknown-input"),
        ({"channel_last_outputs": ["x"]}, "unknown-output"),
        ({"channel_last_outputs": ["y"]}, "no-channels"),
        ({"shapes": {"x": [1, 3, 9, 9]}}, "bad-shape"),
        ({"shapes": {"z": [1]}}, "unknown-input"),
    ],
)
def test_options_that_do_not_fit_the_model_are_errors(options, reference, tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        apply(Preprocess, small_net(tmp_path), tmp_path, images(1), **options)
    assert caught.value.reference == reference
    assert caught.value.status is ExitStatus.USAGE


def test_sizes_are_fixed_by_the_names_of_dimensions(tmp_path: Path) -> None:
    model = small_net(tmp_path, batch="batch")
    options = parse_options(Preprocess, {"dimensions": {"batch": 2}})
    assert Preprocess().inputs_for(options, model)[0].shape == (2, 3, 8, 8)
    Preprocess().refuse_without_data(options, model)
    result = apply(Preprocess, model, tmp_path, dimensions={"batch": 2})
    assert result.notes[0] == "dynamic inputs are fixed as asked: x 2x3x8x8"
    assert result.model.inputs[0].shape == (2, 3, 8, 8)


def test_a_dimension_that_is_not_there_or_is_left_open_is_refused(tmp_path: Path) -> None:
    model = stored(models.encoder(tmp_path), tmp_path)
    with pytest.raises(OptimError) as unknown:
        Preprocess().refuse_for(parse_options(Preprocess, {"dimensions": {"none": 2}}), model, None)
    assert unknown.value.reference == "unknown-dimension"
    name = next(size for size in model.inputs[0].shape if isinstance(size, str))
    with pytest.raises(OptimError) as left:
        Preprocess().refuse_without_data(parse_options(Preprocess, {"dimensions": {name: 1}}), model)
    assert left.value.reference == "dynamic-without-data"
    with pytest.raises(OptimError, match="do not fit") as both:
        parse_options(Preprocess, {"dimensions": {"batch": 1}, "shapes": {"x": [1, 3, 8, 8]}})
    assert "exclude each other" in both.value.cause
