"""Target web on WASM and made for WebGPU: what is offered, operators by its tables, float16 that overflows."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import task_models
from onnx import TensorProto, helper

from optim import Model, OptimError, Target
from optim.backend import Delivery
from optim.onnx import deliver_model as deliver_model
from optim_prepost.plugin import WEB
from optim_prepost.web import chromium
from optim_prepost.web.backend import OrtWebBackend
from optim_prepost.web.deliver import deliver
from optim_testing import Trial

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node on this machine")


def webgpu() -> Target:
    assert WEB.configure is not None
    return WEB.configure({"provider": "webgpu"})


def model_of(folder: Path, nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto], *domains: str) -> Model:
    """A model of float32 inputs ``x`` and outputs ``y``, of two numbers."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 18), *(helper.make_opsetid(name, 1) for name in domains)]
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), folder / "m.onnx")
    return Trial.of(folder / "m.onnx", folder / "trial", WEB, OrtWebBackend()).model


def test_made_for_webgpu_it_is_judged_on_wasm_and_says_so() -> None:
    made = webgpu()
    assert (made.provider, made.made_for, made.timed) == ("wasm", "webgpu", False)
    assert "nothing was run on WebGPU" in made.remark
    assert (WEB.configure({"provider": "wasm"}), WEB.configure({})) == (WEB, WEB)


@pytest.mark.parametrize(
    ("settings", "reference"),
    [({"provider": "webnn"}, "bad-target-setting"), ({"providr": "wasm"}, "unknown-target-setting")],
)
def test_what_the_target_cannot_be_set_to_is_refused(settings: dict[str, str], reference: str) -> None:
    with pytest.raises(OptimError) as refused:
        WEB.configure(settings)
    assert refused.value.reference == reference


@pytest.mark.slow
@needs_node
def test_a_number_beyond_float16_is_found_where_wasm_hides_it(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["h", "c"], ["large"]),
        helper.make_node("Div", ["large", "c"], ["back"]),
        helper.make_node("Cast", ["back"], ["y"], to=TensorProto.FLOAT),
    ]
    made = model_of(tmp_path, nodes, [onnx.numpy_helper.from_array(np.array(1000, np.float16), "c")])
    backend = OrtWebBackend()
    with backend.open(made, WEB) as hidden:
        assert hidden.run({"x": np.array([1, 100], np.float32)})["y"].tolist() == [1, 100]
    with backend.open(made, webgpu()) as looked:
        assert list(looked.run({"x": np.array([1, 2], np.float32)})) == ["y"]
        with pytest.raises(OptimError, match="'large' goes beyond") as found:
            looked.run({"x": np.array([1, 100], np.float32)})
    assert found.value.reference == "beyond-float16"


def test_an_operator_of_onnxruntime_without_a_kernel_on_webgpu_is_refused(tmp_path: Path) -> None:
    domain = "com.microsoft"
    bias = onnx.numpy_helper.from_array(np.zeros(2, np.float32), "b")
    node = helper.make_node("BiasGelu", ["x", "b"], ["y"], domain=domain)
    with pytest.raises(OptimError) as refused:
        OrtWebBackend().open(model_of(tmp_path, [node], [bias], domain), webgpu())
    assert refused.value.reference == "not-on-webgpu"
    assert "com.microsoft:BiasGelu" in refused.value.cause


@needs_node
@pytest.mark.slow
@pytest.mark.skipif(chromium.find_chromium() is None, reason="there is no Chromium on this machine")
def test_the_page_for_webgpu_opens_in_a_browser_without_it(tmp_path: Path) -> None:
    trial = Trial.of(task_models.digits(tmp_path), tmp_path / "trial", WEB, OrtWebBackend())
    folder = tmp_path / "run"
    folder.mkdir()
    deliver_model(trial.model, folder)
    checks = {check.name: check.status for check in deliver(Delivery(folder, trial.model, webgpu(), ()))}
    assert checks["opens in Chromium"] == "passed"
    assert "ort.webgpu.min.mjs" in (folder / "runtime.mjs").read_text(encoding="utf-8")
