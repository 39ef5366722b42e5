"""The real neural-compressor: what it makes, and its failures with their true cause."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from optim import OptimError, Target
from optim.isolation import run_isolated
from optim_inc.environment import ISOLATION
from optim_inc.quantize_aware_of_accuracy import QuantizeAwareOfAccuracy
from optim_inc.quantize_dynamic import QuantizeDynamic
from optim_inc.quantize_static import QuantizeStatic
from optim_inc.quantize_weights import QuantizeWeights
from optim_plugins.diagnose.installation.making import remove_environment
from optim_testing import Trial, models
from optim_testing.exact_integers import OnnxRuntimeCpu

pytestmark = pytest.mark.slow

WIDE = pytest.mark.wide
"""For a word that neural-compressor alone reads."""

CPU = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")


@pytest.fixture(scope="module")
def trial(tmp_path_factory) -> Trial:
    folder = tmp_path_factory.mktemp("encoder")
    return Trial.of(models.encoder(folder), folder / "trial", CPU, OnnxRuntimeCpu())


@pytest.fixture(scope="module")
def convolutions(tmp_path_factory) -> Trial:
    folder = tmp_path_factory.mktemp("convolutions")
    return Trial.of(models.convnet(folder), folder / "trial", CPU, OnnxRuntimeCpu())


@pytest.mark.parametrize(
    ("pass_class", "options", "operators", "most"),
    [
        (QuantizeDynamic, {}, {"DynamicQuantizeLinear", "MatMulInteger"}, 0.05),
        (QuantizeStatic, {"format": "QLinear"}, {"QuantizeLinear", "QLinearMatMul"}, 0.05),
        (QuantizeWeights, {"algorithm": "AWQ", "samples": 2}, {"MatMulNBits"}, 0.3),
        pytest.param(
            QuantizeStatic, {"smooth_quant": True, "alpha": "auto", "samples": 2}, {"QuantizeLinear"}, 0.2, marks=WIDE
        ),
        pytest.param(QuantizeStatic, {}, {"QuantizeLinear"}, 0.05, marks=WIDE),
        pytest.param(QuantizeStatic, {"calibration": "kl"}, {"QuantizeLinear"}, 0.2, marks=WIDE),
        pytest.param(
            QuantizeStatic, {"calibration": "percentile", "per_channel": False}, {"QuantizeLinear"}, 0.2, marks=WIDE
        ),
        pytest.param(QuantizeStatic, {"smooth_quant": True}, {"QuantizeLinear"}, 0.2, marks=WIDE),
        pytest.param(QuantizeWeights, {}, {"MatMulNBits"}, 0.3, marks=WIDE),
        pytest.param(QuantizeWeights, {"algorithm": "GPTQ", "symmetric": False}, {"MatMulNBits"}, 0.3, marks=WIDE),
    ],
)
def test_each_way_makes_the_operators_it_says_and_computes_about_the_same(trial, pass_class, options, operators, most):
    result = trial.apply(pass_class(), trial.model, trial.options(pass_class, options))
    assert result.changed
    assert operators <= set(result.counts)
    assert 0 < trial.drift(result).relative_error < most


@WIDE
def test_each_algorithm_makes_another_model(trial):
    def digest(name):
        options = trial.options(QuantizeWeights, {"algorithm": name, "samples": 2})
        return trial.apply(QuantizeWeights(), trial.model, options).model.digest

    assert len({digest(name) for name in ("RTN", "GPTQ", "AWQ")}) == 3


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("convolutions", {"operators": ["Gemm"]}),
        ("trial", {"smooth_quant": True}),
        pytest.param("convolutions", {"quant_level": 0}, marks=WIDE),
        pytest.param("convolutions", {"graph_optimization": "none"}, marks=WIDE),
        pytest.param("convolutions", {"weight_bits": 7}, marks=WIDE),
        pytest.param("convolutions", {"qdq_at_weights": True}, marks=WIDE),
        pytest.param("trial", {"qdq_for_each_consumer": True}, marks=WIDE),
    ],
    ids=str,
)
def test_each_option_of_static_quantization_changes_the_model(request, plain, model, options):
    on: Trial = request.getfixturevalue(model)
    after = _static(on, options)
    assert plain[model] != after.model.digest
    assert on.drift(after).relative_error < 0.2


@pytest.fixture(scope="module")
def plain(trial, convolutions):
    """By fixture, the digest of what static quantization makes without an option."""
    return {"trial": _static(trial, {}).model.digest, "convolutions": _static(convolutions, {}).model.digest}


def _static(trial, options):
    plain = {"weight_bits": 8, "quant_level": 1, "graph_optimization": "basic", "samples": 4}  # on any processor
    return trial.apply(QuantizeStatic(), trial.model, trial.options(QuantizeStatic, plain | options))


def test_dynamic_quantization_is_held_to_types_of_operators_and_bits(convolutions):
    def made(**options):
        options = convolutions.options(QuantizeDynamic, {"weight_bits": 8, **options})
        return convolutions.apply(QuantizeDynamic(), convolutions.model, options)

    assert {"ConvInteger", "MatMulInteger"} <= set(made().counts)
    assert "ConvInteger" not in made(operators=["MatMul"]).counts
    assert (
        len({made().model.digest, made(weight_bits=7).model.digest, made(graph_optimization="none").model.digest}) == 3
    )


def test_weights_that_the_runtime_would_refuse_stay_in_float(trial):
    asymmetric = {"symmetric": False, "group_size": 32}
    result = trial.apply(QuantizeWeights(), trial.model, trial.options(QuantizeWeights, asymmetric))
    assert result.changed
    assert "odd number of groups" in result.notes[-1]
    assert trial.drift(result).relative_error < 0.3


def test_tuning_ends_at_the_first_model_that_the_host_finds_good(trial):
    result = _tuned(trial, tolerable_loss=0.5, max_trials=5)
    assert result.changed
    assert result.notes[0] == "calibrated on the 3 of 8 samples that have equal shapes"
    accuracy = 1 - trial.drift(result).relative_error
    assert float(result.notes[1].rpartition(": ")[2]) == pytest.approx(accuracy, abs=5e-5)
    assert result.notes[1].count(",") == 0


@WIDE
def test_an_objective_goes_on_after_the_first_model_that_is_good(trial):
    first, best = (
        _tuned(trial, tolerable_loss=0.5, max_trials=3, seconds=30, objective=objective)
        for objective in ("first", "performance")
    )
    assert best.changed
    assert [note.count(",") for note in (first.notes[1], best.notes[1])] == [0, 2]


def test_a_relative_loss_is_a_share_of_the_original_metric(trial):
    """The original agrees with itself: a share of one is what the absolute loss is, and half of it is half."""
    assert _tuned(trial, tolerable_loss=0.5, relative_loss=True, max_trials=3).changed
    assert not _tuned(trial, tolerable_loss=1e-9, relative_loss=True, max_trials=2).changed


@pytest.mark.parametrize(
    "strategy", ["basic", *(pytest.param(name, marks=WIDE) for name in ("bayesian", "mse", "mse_v2", "exhaustive"))]
)
def test_a_goal_that_no_model_reaches_is_no_failure_and_no_model(trial, strategy):
    result = _tuned(trial, strategy=strategy, tolerable_loss=1e-9, max_trials=3)
    assert not result.changed
    assert any("no model that was tried" in note for note in result.notes), result.notes


def test_tuning_out_of_time_is_a_goal_missed(trial):
    result = _tuned(trial, tolerable_loss=1e-9, seconds=1e-3, max_trials=50)
    assert not result.changed
    assert result.notes[0].startswith("no model that was tried")


def _tuned(trial, **options):
    return trial.apply(QuantizeAwareOfAccuracy(), trial.model, trial.options(QuantizeAwareOfAccuracy, options))


def test_names_to_keep_are_names_and_not_regular_expressions(tmp_path):
    path = models.mlp(tmp_path)
    graph = onnx.load(path)
    products = [node for node in graph.graph.node if node.op_type in ("MatMul", "Gemm")]
    products[0].name, products[1].name = "layer(0)/x.y", "layer(0)/xzy"
    onnx.save(graph, path)
    one = Trial.of(path, tmp_path / "trial", CPU, OnnxRuntimeCpu())
    result = one.apply(QuantizeDynamic(), one.model, one.options(QuantizeDynamic, {"keep": ["layer(0)/x.y"]}))
    whole = one.apply(QuantizeDynamic(), one.model, one.options(QuantizeDynamic, {}))
    assert whole.counts["MatMulInteger"] == 2
    assert result.counts["MatMulInteger"] == 1


def test_an_exception_inside_neural_compressor_comes_out_with_its_cause(tmp_path):
    np.savez(tmp_path / "wrong.npz", nobody=np.zeros(3, np.float32))
    request = _request(tmp_path, {"approach": "static"}, samples=[str(tmp_path / "wrong.npz")])
    with pytest.raises(OptimError) as raised:
        run_isolated(ISOLATION, "quantize", request)
    assert raised.value.reference == "isolated-job-failed"
    assert "nobody" in raised.value.cause
    assert "NeuralCompressorError" in raised.value.cause
    assert "returned nothing" not in raised.value.cause


def test_a_model_that_is_not_there_is_said(tmp_path):
    request = _request(tmp_path, {"approach": "dynamic"}) | {"model": str(tmp_path / "none.onnx")}
    with pytest.raises(OptimError, match=r"none\.onnx"):
        run_isolated(ISOLATION, "quantize", request)


def test_without_its_environment_a_pass_declines_and_says_how_to_make_it(trial, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_DATA_DIR", str(tmp_path))
    assert not remove_environment("inc")
    applicable = trial.applicable(QuantizeDynamic(), trial.model)
    assert not applicable.yes
    assert "optim plugins install inc" in applicable.reason


def _request(folder, config, samples=()):
    return {
        "model": str(models.mlp(folder)),
        "output": str(folder / "out.onnx"),
        "config": config,
        "keep": [],
        "samples": list(samples),
        "tuning": None,
    }
