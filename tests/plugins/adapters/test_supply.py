"""Adapters that a session is opened with: external initializers, from the pass to ``optim.load``."""

from __future__ import annotations

import importlib.util
import json
import shutil

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from adapter_models import adapted_model, adapter_weights, peft_folder, reference

import optim
from optim import AdapterInput, OptimError, Target, TensorInfo
from optim._engine.graphs.ingest import ingest
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim.onnx import OnnxRuntimeBackend, deliver_model
from optim.onnx.adapter_inputs import KEY, SUPPLIED
from optim.options import parse_options
from optim_plugins.adapted import Adapter, read_adapter, write_adapter
from optim_plugins.adapted.supply import share_out
from optim_plugins.adapters.convert.convert import convert
from optim_plugins.adapters.extract.extract import Extract, ExtractPacked
from optim_testing import Trial

CPU = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")
X = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)


class Cpu(OnnxRuntimeBackend):
    name = "ort"


def refusal(work):
    with pytest.raises(OptimError) as caught:
        work()
    return caught.value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run folder whose model is opened with an adapter of rank 4, filled up to 8, and one of rank 8 beside it."""
    made = tmp_path_factory.mktemp("supplied")
    trial = Trial.of(adapted_model(made), made / "trial", CPU, Cpu())
    options = trial.options(Extract, {"supply": "external", "rank": 8})
    model = trial.apply(Extract(), trial.model, options).model
    deliver_model(model, made / "out")
    write_session_files(made / "out", SessionFile.of(model.session, CPU, model=model))
    write_adapter(convert(peft_folder(made / "peft", rank=8, seed=3), model.adapters).adapter, made / "other.npz")
    return made


def close(session, weights):
    np.testing.assert_allclose(session.run(None, {"x": X})[0], reference(X, weights), atol=1e-5, rtol=1e-5)
    return True


def test_the_model_has_no_weights_of_adapters_and_opens_with_them_alone(folder):
    proto = onnx.load(folder / "out" / "model.onnx", load_external_data=False)
    there = [one for one in proto.graph.initializer if any(entry.value == SUPPLIED for entry in one.external_data)]
    assert {one.name for one in there} == {f"enc.{layer}.lora_{side}" for layer in ("up", "down") for side in "AB"}
    assert [value.name for value in proto.graph.input] == ["x"]
    assert not (folder / "out" / SUPPLIED).exists()
    with pytest.raises(Exception, match="does not exist"):
        ort.InferenceSession(str(folder / "out" / "model.onnx"), providers=["CPUExecutionProvider"])


def test_each_session_has_the_adapter_that_it_was_opened_with(folder):
    assert json.loads((folder / "out" / "session.json").read_text())["adapter"] == "default.onnx_adapter"
    sessions = [optim.load(folder / "out", adapter=one) for one in (None, folder / "other.npz", ())]
    weights = (adapter_weights("lora"), adapter_weights("lora", 8, 3), None)
    assert all(close(session, each) for session, each in zip(sessions, weights, strict=True))
    found = refusal(lambda: sessions[0].run(None, {"x": X}, adapter=folder / "other.npz"))
    assert found.reference == "adapter-stays"
    packed = refusal(lambda: optim.load(folder / "out", adapter=folder / "other.npz", packed=True))
    assert packed.reference == "cannot-be-packed"
    two = (folder / "other.npz", folder / "out" / "default.onnx_adapter")
    assert refusal(lambda: optim.load(folder / "out", adapter=two)).reference == "one-adapter-only"


def test_load_py_opens_it_with_onnxruntime_alone(folder, tmp_path):
    found = importlib.util.spec_from_file_location("load_py_of_a_run", folder / "out" / "load.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    write_adapter(read_adapter(folder / "other.npz"), tmp_path / "other.onnx_adapter")
    assert close(module.load(), adapter_weights("lora"))
    assert close(module.load(adapter=tmp_path / "other.onnx_adapter"), adapter_weights("lora", 8, 3))


def test_the_delivered_model_is_not_optimized_again_without_its_weights(folder, tmp_path):
    found = refusal(lambda: ingest(folder / "out" / "model.onnx", tmp_path / "store"))
    assert found.reference == "adapter-not-supplied" and "enc.up.lora_A" in found.cause


def test_an_adapter_of_another_rank_or_a_file_elsewhere_is_refused(folder, tmp_path):
    short = {name: array[:, :4] if "_A" in name else array for name, array in arrays_of(folder).items()}
    found = refusal(lambda: optim.load(folder / "out", adapter=Adapter(short)))
    assert found.reference == "adapter-does-not-fit" and "64x8" in found.cause
    said = json.loads((folder / "out" / "session.json").read_text()) | {"adapter": "../other.npz"}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "model.onnx").write_bytes((folder / "out" / "model.onnx").read_bytes())
    (tmp_path / "out" / "session.json").write_text(json.dumps(said))
    assert refusal(lambda: optim.load(tmp_path / "out")).reference == "untrusted-setting"


def test_the_file_that_is_opened_is_the_one_that_was_checked(folder, tmp_path):
    """The graph of a stranger may name another, in any folder."""
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    proto = onnx.load(out / "model.onnx", load_external_data=False)
    (said,) = [entry for entry in proto.metadata_props if entry.key == KEY]
    said.value = said.value.replace("default.onnx_adapter", str(folder / "other.npz"))
    (out / "model.onnx").write_bytes(proto.SerializeToString())
    assert close(optim.load(out), adapter_weights("lora"))


def arrays_of(folder):
    return read_adapter(folder / "out" / "default.onnx_adapter").arrays


@pytest.mark.parametrize(
    ("pass_class", "options", "target", "reason"),
    [
        (Extract, {}, "openvino", "become constants"),
        (Extract, {"supply": "external"}, "openvino", "without its weights"),
        (Extract, {"required": True}, "QNNExecutionProvider", "shapes are fixed"),
        (Extract, {}, "wasm", "not tested: whether"),
        (ExtractPacked, {"required": True}, "openvino", "as constants"),
        (Extract, {"required": True}, "openvino", ""),
        (Extract, {"required": True, "rank": 8}, "QNNExecutionProvider", ""),
        (Extract, {"supply": "external"}, "CUDAExecutionProvider", ""),
    ],
)
def test_a_target_takes_adapters_or_says_why_not(pass_class, options, target, reason):
    chosen = parse_options(pass_class, options)
    place = Target("there", "ort", runtime=target)
    if not reason:
        pass_class().refuse(chosen, place)
        return
    found = refusal(lambda: pass_class().refuse(chosen, place))
    assert found.reference == "adapters-not-on-target" and reason in found.cause


def test_options_that_contradict_each_other_are_refused(tmp_path):
    for values, why in (
        ({"supply": "external", "required": True}, "always required"),
        ({"also": (str(tmp_path / "a" / "x"), str(tmp_path / "b" / "x"))}, "one name"),
        ({"also": (str(tmp_path / "none"),)}, "there is no"),
    ):
        found = refusal(lambda values=values: parse_options(Extract, values))
        assert found.reference == "bad-option" and why in found.cause


def test_arrays_go_to_the_model_that_takes_them(folder):
    """An encoder and a decoder beside it; what is for neither, or for both, is not dropped."""
    inputs = {
        model: [AdapterInput(TensorInfo(f"{model}.q.lora_A", "float32", (4, "rank")), f"{model}.q", "down")]
        for model in ("encoder", "decoder")
    }
    one, two = (Adapter({f"{model}.q.lora_A": np.ones((4, 2), np.float32)}) for model in inputs)
    for given in ((one, two), Adapter({**one.arrays, **two.arrays})):
        shared = share_out(given, {**inputs, "vocoder": ()})
        assert {model: [list(part.arrays) for part in found] for model, found in shared.items()} == {
            "encoder": [["encoder.q.lora_A"]],
            "decoder": [["decoder.q.lora_A"]],
        }
    assert share_out((), inputs) == {"encoder": (), "decoder": ()}
    nobody = Adapter({"nobody": np.ones(2, np.float32)})
    assert "no model" in refusal(lambda: share_out(nobody, inputs)).cause
    both = {"a": inputs["encoder"], "b": inputs["encoder"]}
    assert "a and b" in refusal(lambda: share_out(one, both)).cause
    assert refusal(lambda: share_out(one, {"a": ()})).reference == "adapter-not-taken"
