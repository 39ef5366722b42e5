"""``qnn.quantize``: types, kept nodes, overrides, calibration; its result runs on HTP alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from qnn_models import (
    QNN,
    apply,
    build,
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
from optim.options import parse_options
from optim_qnn.preprocess.preprocess import Preprocess
from optim_qnn.quantize.quantize import Quantize
from optim_testing import models

pytestmark = pytest.mark.slow


def sentences(count: int = 3):
    rng = np.random.default_rng(3)
    ones = np.ones((1, 16), np.int64)
    return [{"input_ids": rng.integers(0, 50, (1, 16)), "attention_mask": ones} for _ in range(count)]


def encoder(folder: Path):
    return apply(Preprocess, stored(models.encoder(folder), folder), folder, sentences()).model


def types_of(model) -> dict[str, str]:
    """By tensor: the type it is converted to."""
    graph = model.ir().graph
    found = {}
    for node in graph:
        zero = node.inputs[2].const_value if node.op_type.endswith("quantizeLinear") and len(node.inputs) > 2 else None
        if node.op_type == "QuantizeLinear" and len(node.inputs) > 2:
            zero = node.inputs[2].const_value
        if zero is not None:
            found[node.inputs[0].name] = zero.dtype.name
    return found


@on_htp
@pytest.mark.parametrize(
    ("options", "limit"),
    [
        ({}, 0.03),
        ({"activations": "uint16"}, 0.02),
        ({"activations": "uint16", "weights": "int4"}, 0.3),
        ({"per_channel": False}, 0.05),
        ({"symmetric_activations": True, "activations": "uint16"}, 0.02),
        ({"calibration": "percentile"}, 0.1),
        ({"calibration": "entropy"}, 0.1),
    ],
    ids=str,
)
def test_every_kind_of_integers_runs_on_htp_alone(options, limit, tmp_path: Path) -> None:
    model, given = small_net(tmp_path), images()
    result = apply(Quantize, model, tmp_path, given, **options)
    assert result.counts["QuantizeLinear"] > 0
    assert relative_l2(run(model, given[0]), run_on_htp(result.model, given[0])) < limit


@on_htp
def test_sixteen_bits_lose_less_than_eight_on_an_encoder(tmp_path: Path) -> None:
    model, feeds = encoder(tmp_path), sentences()[0]
    expected = run(model, feeds)
    narrow, wide = (
        relative_l2(expected, run_on_htp(apply(Quantize, model, tmp_path, sentences(), activations=kind).model, feeds))
        for kind in ("uint8", "uint16")
    )
    assert wide < narrow / 2
    assert wide < 0.02


def test_four_bits_halve_the_weights(tmp_path: Path) -> None:
    model = encoder(tmp_path)
    kinds = {
        value.const_value.dtype.name
        for value in apply(Quantize, model, tmp_path, sentences(), activations="uint16", weights="int4")
        .model.ir()
        .graph.initializers.values()
        if value.name.endswith("_quantized")
    }
    assert "INT4" in kinds


def test_a_kept_node_reads_and_writes_sixteen_bits_among_eight(tmp_path: Path) -> None:
    model = small_net(tmp_path)
    assert set(Quantize().keepable(model, None)) == {"conv1", "relu1", "conv2", "pool", "gemm"}
    result = apply(Quantize, model, tmp_path, images(), keep=["gemm"])
    assert result.counts["nodes at 16 bits"] == 1
    kinds = types_of(result.model)
    wide = {name for name, kind in kinds.items() if kind == "UINT16"}
    assert wide
    assert any(kind == "UINT8" for kind in kinds.values())
    assert any(name.startswith("y") for name in wide)


@on_htp
def test_more_at_sixteen_bits_brings_the_drift_down(tmp_path: Path) -> None:
    model, feeds = encoder(tmp_path), sentences()[0]
    expected = run(model, feeds)
    every = Quantize().keepable(model, None)
    none, all_of_them = (
        relative_l2(expected, run_on_htp(apply(Quantize, model, tmp_path, sentences(), keep=keep).model, feeds))
        for keep in ((), every)
    )
    assert all_of_them < none / 2


@on_htp
def test_an_override_is_in_the_result_and_runs_on_htp(tmp_path: Path) -> None:
    model, given = small_net(tmp_path), images()
    result = apply(Quantize, model, tmp_path, given, overrides={"c2": {"type": "uint16"}, "k1": {"symmetric": True}})
    assert types_of(result.model)["c2"] == "UINT16"
    assert relative_l2(run(model, given[0]), run_on_htp(result.model, given[0])) < 0.05


def test_a_scale_that_was_given_is_taken(tmp_path: Path) -> None:
    overrides = {"x": {"type": "uint8", "scale": 0.05, "zero_point": 128}}
    graph = apply(Quantize, small_net(tmp_path), tmp_path, images(), overrides=overrides).model.ir().graph
    (node,) = [node for node in graph if node.op_type == "QuantizeLinear" and node.inputs[0].name == "x"]
    assert float(node.inputs[1].const_value.numpy()) == pytest.approx(0.05)
    assert int(node.inputs[2].const_value.numpy()) == 128


@pytest.mark.parametrize(
    ("overrides", "reference", "says"),
    [
        ({"c3": {"type": "uint16"}}, "unknown-tensor", "c2"),
        ({"c2": {"typ": "uint16"}}, "bad-override", "typ"),
        ({"c2": {"type": "float8"}}, "bad-override", "uint16"),
        ({"c2": {"scale": 0.1}}, "bad-override", "zero_point"),
    ],
)
def test_an_override_that_cannot_be_used_is_an_error_that_says_why(overrides, reference, says, tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        apply(Quantize, small_net(tmp_path), tmp_path, images(), overrides=overrides)
    assert caught.value.reference == reference
    assert says in str(caught.value)


def test_no_samples_is_an_error_and_made_up_ones_are_told(tmp_path: Path) -> None:
    model = small_net(tmp_path)
    with pytest.raises(OptimError) as caught:
        apply(Quantize, model, tmp_path)
    assert caught.value.reference == "no-calibration-data"


def test_a_node_that_is_not_there_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(OptimError) as caught:
        apply(Quantize, small_net(tmp_path), tmp_path, images(), keep=["gem"])
    assert caught.value.reference == "unknown-node"


def test_it_declines_dynamic_and_quantized_models_with_the_reason(tmp_path: Path) -> None:
    dynamic = Quantize().applicable(small_net(tmp_path, batch="n"), QNN)
    assert not dynamic.yes
    assert "qnn.preprocess fixes it" in dynamic.reason
    done = apply(Quantize, small_net(tmp_path), tmp_path, images()).model
    assert "already" in Quantize().applicable(done, QNN).reason
    integers = build(
        tmp_path,
        [helper.make_node("Identity", ["x"], ["y"], name="i")],
        {"x": [2]},
        {"y": [2]},
        kinds={"x": "i8", "y": "i8"},
    )
    assert "float32" in Quantize().applicable(integers, QNN).reason


def test_names_shapes_and_types_of_inputs_and_outputs_stay(tmp_path: Path) -> None:
    model = small_net(tmp_path)
    made = apply(Quantize, model, tmp_path, images()).model
    assert (made.inputs, made.outputs) == (model.inputs, model.outputs)
    onnx.checker.check_model(str(made.path))
    assert operators(made).count("Conv") == 2


def test_the_same_samples_give_the_same_model(tmp_path: Path) -> None:
    model = small_net(tmp_path)
    assert apply(Quantize, model, tmp_path, images()).model == apply(Quantize, model, tmp_path, images()).model


def test_large_weights_and_small_ones_keep_their_own_scale_in_a_product(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = normal(rng, 16, 16) * np.geomspace(1e-3, 10, 16, dtype=np.float32)
    model = build(
        tmp_path,
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        {"x": [1, 16]},
        {"y": [1, 16]},
        {"w": weight},
    )
    samples = [{"x": normal(rng, 1, 16)} for _ in range(4)]
    small = np.s_[..., :4]
    expected = run(model, samples[0])["y"][small]
    errors = [
        np.abs(
            run(apply(Quantize, model, tmp_path, samples, activations="uint16", per_channel=per).model, samples[0])[
                "y"
            ][small]
            - expected
        ).max()
        for per in (True, False)
    ]
    assert errors[0] < errors[1]


def test_an_override_without_effect_is_an_error_that_names_the_tensor(tmp_path: Path) -> None:
    with pytest.raises(OptimError, match="'input_ids' has no effect") as caught:
        apply(Quantize, encoder(tmp_path), tmp_path, sentences(), overrides={"input_ids": {"type": "uint16"}})
    assert caught.value.reference == "override-dropped"
    assert caught.value.status is ExitStatus.NOT_HELD


def inputs_of(model, name: str) -> list[str]:
    """Operators that make what a node reads; a weight or an input of the graph is none."""
    node = next(one for one in model.ir().graph if one.name == name)
    makers = [value.producer() if value is not None else None for value in node.inputs]
    return [maker.op_type for maker in makers if maker is not None]


@on_htp
@pytest.mark.parametrize("options", [{"float_nodes": ["gemm"]}, {"float_operators": ["Gemm"]}])
def test_a_node_or_an_operator_stays_in_float_and_runs_on_htp(options, tmp_path: Path) -> None:
    model, given = small_net(tmp_path), images()
    assert "DequantizeLinear" in inputs_of(apply(Quantize, model, tmp_path, given).model, "gemm")[1:]
    result = apply(Quantize, model, tmp_path, given, **options)
    assert inputs_of(result.model, "gemm")[1:] == []  # weight and bias
    assert result.counts["nodes in float"] == 1
    assert "gemm" not in Quantize().keepable(model, parse_options(Quantize, options))
    assert relative_l2(run(model, given[0]), run_on_htp(result.model, given[0])) < 0.05


def test_weights_have_the_symmetry_that_is_asked_for(tmp_path: Path) -> None:
    def zero_points(**options) -> set[int]:
        graph = apply(Quantize, small_net(tmp_path), tmp_path, images(), per_channel=False, **options).model.ir().graph
        zeros = [
            node.inputs[2] for node in graph if node.op_type == "DequantizeLinear" and node.inputs[0].name in names
        ]
        return {int(number) for zero in zeros for number in np.atleast_1d(zero.const_value.numpy())}

    names = {"k1_quantized", "k2_quantized", "w_quantized"}
    assert zero_points() == {0}
    assert zero_points(symmetric_weights=False) - {0}
    assert zero_points(weights="uint8", symmetric_weights=True) <= {127, 128}


def test_activations_that_a_range_stands_for_are_kept_if_asked_for(tmp_path: Path) -> None:
    model = small_net(tmp_path)
    assert "Relu" not in operators(apply(Quantize, model, tmp_path, images()).model)
    assert "Relu" in operators(apply(Quantize, model, tmp_path, images(), keep_removable=True).model)


def test_samples_are_calibrated_a_few_at_a_time(tmp_path: Path) -> None:
    model = small_net(tmp_path)
    whole, parts = (apply(Quantize, model, tmp_path, images(4), **options) for options in ({}, {"stride": 2}))
    assert relative_l2(run(whole.model, images()[0]), run(parts.model, images()[0])) < 1e-6
    with pytest.raises(OptimError, match="not divisible by stride size"):
        apply(Quantize, model, tmp_path, images(4), stride=3)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"symmetric_weights": False}, "needs per_channel false"),
        ({"keep": ["gemm"], "float_nodes": ["gemm"]}, "'gemm' is in keep and in float_nodes"),
        ({"stride": 0}, "stride"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, said, tmp_path: Path) -> None:
    with pytest.raises(OptimError) as refused:
        parse_options(Quantize, options)
    assert said in refused.value.cause


def test_names_that_the_graph_lacks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptimError, match="'gem' in float_nodes"):
        apply(Quantize, small_net(tmp_path), tmp_path, images(), float_nodes=["gem"])
    with pytest.raises(OptimError, match="there is no operator 'Gem'"):
        apply(Quantize, small_net(tmp_path), tmp_path, images(), float_operators=["Gem"])
