"""Models with 8-bit products on processors whose integer kernels saturate in OpenVINO."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from processors import Command

from optim import Model
from optim.onnx import describe_model
from optim.processor import Processor
from optim_openvino.precision.exact_integers import ExactIntegers
from optim_openvino.runtime import saturation
from optim_openvino.runtime.backend import OpenVinoBackend
from optim_openvino.runtime.properties import DEVICE, LOW_PRECISION, as_session
from optim_openvino.runtime.targets import TARGET
from optim_testing import models

AVX2 = Processor("x86_64", frozenset({"avx", "avx2", "fma"}))
VNNI = Processor("x86_64", frozenset({"avx2", "avx_vnni"}))
SIZE = 64


def saturating(folder: Path) -> Path:
    """A product of Q/DQ pairs: unsigned activations, and weights that use all 8 bits, most large and of one sign."""
    random = np.random.default_rng(0)
    constants = {
        "xs": np.float32(1 / 255),
        "ws": np.float32(1 / 127),
        "xz": np.uint8(0),
        "wz": np.int8(0),
        "w": random.integers(60, 128, (SIZE, SIZE)).astype(np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "xs", "xz"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["v"]),
        helper.make_node("MatMul", ["d", "v"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, SIZE]) for name in ("x", "y")]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializers)
    path = folder / "saturating.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return describe_model(saturating(tmp_path))


def test_the_property_is_for_integers_on_processors_that_saturate(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = OpenVinoBackend()
    monkeypatch.setattr(saturation, "this_processor", lambda: AVX2)
    found = backend.exact_settings(model, TARGET)
    assert found is not None
    assert (found.session, found.pass_name) == (as_session({LOW_PRECISION: "OFF"}), ExactIntegers.name)
    assert "saturate" in found.cause
    assert backend.exact_settings(model.with_session(found.session), TARGET) is None
    assert backend.exact_settings(model.with_session(as_session({DEVICE: "GPU"})), TARGET) is None
    assert backend.exact_settings(describe_model(models.mlp(tmp_path)), TARGET) is None
    monkeypatch.setattr(saturation, "this_processor", lambda: VNNI)
    assert backend.exact_settings(model, TARGET) is None
    assert "added in 32 bits here" in ExactIntegers().applicable(model, TARGET).reason


@pytest.mark.slow
def test_a_model_that_saturates_is_named_and_delivered_with_the_property(as_avx2: Command, tmp_path: Path) -> None:
    random, out = np.random.default_rng(0), tmp_path / "out"
    samples = {f"{i}/x": random.uniform(0.5, 1, (8, SIZE)).astype(np.float32) for i in range(4)}
    np.savez(tmp_path / "data.npz", **samples)
    words = ["run", saturating(tmp_path), "-o", out, "--data", tmp_path / "data.npz", "--target", "openvino"]
    as_avx2(
        sys.executable, "-m", "optim", *words, "--search-seconds", "60", "--stage", "fuse", "--lossless", "--no-cache"
    )
    report = json.loads((out / "report.json").read_text())
    assert report["status"] in ("improved", "prepared")
    assert any("wrong values on this processor" in note and "saturate" in note for note in report["notes"])
    assert report["result"]["drift"]["relative_error"] < 1e-4
    session = json.loads((out / "session.json").read_text())
    assert session["tuned_provider_options"]["openvino"][LOW_PRECISION] == "OFF"
