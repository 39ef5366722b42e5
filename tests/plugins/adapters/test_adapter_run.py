"""A whole run with adapters: gated with each of them and without, delivered and loaded."""

from __future__ import annotations

import numpy as np
import pytest
from adapter_models import adapted_model, adapter_weights, peft_folder, reference

import optim
from optim.onnx import operator_counts

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here", "counted_clock")]

X = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)


def test_a_run_delivers_the_model_and_its_adapters_and_holds_it_with_each_and_without(tmp_path):
    others = [peft_folder(tmp_path / "four", rank=4, seed=2), peft_folder(tmp_path / "eight", rank=8, seed=3)]
    named = {"adapters.extract": {"also": [str(path) for path in others]}}
    asked = {"passes": named, "stages": ("fuse",), "lossless": True, "search_seconds": 20}
    report = optim.run(adapted_model(tmp_path), tmp_path / "out", **asked)
    assert report.result is not None, report.reason
    compared = {one.name for one in report.result.outputs}
    assert compared == {"y", "without an adapter: y", "with four: y", "with eight: y"}
    assert report.result.batch.batched < 1e-6, "a batch has the adapter that its samples have"
    session = optim.load(tmp_path / "out", adapter=tmp_path / "out" / "default.onnx_adapter")
    for adapter, weights in (
        (None, adapter_weights("lora")),
        ((), None),
        (tmp_path / "out" / "four.onnx_adapter", adapter_weights("lora", 4, 2)),
        (tmp_path / "out" / "eight.onnx_adapter", adapter_weights("lora", 8, 3)),
    ):
        found = session.run(None, {"x": X}, adapter=adapter)[0]
        np.testing.assert_allclose(found, reference(X, weights), atol=1e-5, rtol=1e-5)


def relative_l2(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def test_a_base_in_four_bits_works_with_its_adapters_within_its_own_drift(tmp_path):
    """Fused, quantized and tuned after extraction; each adapter is gated, and none drifts further than the base."""
    other = peft_folder(tmp_path / "eight", rank=8, seed=3)
    named = {
        "adapters.extract": {"also": [str(other)]},
        "ort.quantize-weights": {"bits": 4, "block_size": 32, "accuracy_level": 0},
    }
    asked = {"passes": named, "max_drift": 0.3, "search_seconds": 30}
    report = optim.run(adapted_model(tmp_path), tmp_path / "out", **asked)
    assert report.result is not None, report.reason
    kept = [step.pass_name for step in report.steps if step.status == "kept"]
    assert kept[:1] == ["adapters.extract"] and "ort.quantize-weights" in kept
    assert operator_counts(tmp_path / "out" / "model.onnx")["com.microsoft:MatMulNBits"] == 2
    drifts = {one.name: one.relative_error for one in report.result.outputs}
    base = drifts.pop("without an adapter: y")
    assert 0 < base < 0.3 and set(drifts) == {"y", "with eight: y"}
    assert all(0 < one <= base for one in drifts.values()), (base, drifts)
    session = optim.load(tmp_path / "out")
    for file, weights in (("default", adapter_weights("lora")), ("eight", adapter_weights("lora", 8, 3))):
        found = session.run(None, {"x": X}, adapter=tmp_path / "out" / f"{file}.onnx_adapter")[0]
        assert relative_l2(found, reference(X, weights)) < 1.5 * base


def test_what_one_further_adapter_loses_beyond_the_budget_is_not_delivered(tmp_path):
    """The adapter of the export changes little, so 4 bits cost little; a further one is most of what comes out."""
    other = peft_folder(tmp_path / "strong", rank=4, seed=2, lora_alpha=600)
    named = {"adapters.extract-packed": {"bits": 4, "block_size": 32, "also": [str(other)]}}
    asked = {"passes": named, "stages": ("fuse",), "max_drift": 0.13, "search_seconds": 20}
    report = optim.run(adapted_model(tmp_path), tmp_path / "out", **asked)
    assert report.result is None and "with strong: y" in report.reason
