"""``adapters.extract``: the graph with its adapter fed, and without, computes what peft computes."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import onnx
import pytest
from adapter_models import adapted_model, adapter_weights, reference

from optim.adapters.adapter_file import ONNX_ADAPTER, read_adapter
from optim.errors import OptimError
from optim.onnx.backend import OnnxRuntimeBackend
from optim.target import Target
from optim.testing import PassConformance
from optim.testing.trial import Trial
from optim_plugins.adapters.extract.extract import Extract

CPU = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")


class Cpu(OnnxRuntimeBackend):
    name = "ort"


def extracted(path, folder, **options):
    trial = Trial.of(path, folder, CPU, Cpu())
    return trial, trial.apply(Extract(), trial.model, trial.options(Extract, options))


def outputs(model, feeds):
    with Cpu().open(model, CPU) as session:
        return session.run(feeds)["y"]


X = np.random.default_rng(5).normal(size=(2, 3, 32)).astype(np.float32)


class TestExtract(PassConformance):
    max_drift = 1e-6
    options: ClassVar = {}

    @pytest.fixture
    def pass_class(self):
        return Extract

    @pytest.fixture
    def model_path(self, tmp_path):
        return adapted_model(tmp_path)


@pytest.mark.parametrize(
    ("kind", "style"),
    [("lora", "dynamo"), ("lora", "torchscript"), ("lora", "folded"), ("dora", "dynamo"), ("loha", "torchscript")],
)
def test_it_computes_what_peft_computes_with_the_adapter_and_without(tmp_path, kind, style):
    _, result = extracted(adapted_model(tmp_path, kind, style=style), tmp_path / "trial")
    (file,) = result.model.attachments.values()
    arrays = read_adapter(file, ONNX_ADAPTER).arrays
    assert set(arrays) == {one.info.name for one in result.model.adapters}
    np.testing.assert_allclose(
        outputs(result.model, {"x": X, **arrays}), reference(X, adapter_weights(kind)), atol=1e-5, rtol=1e-5
    )
    (variant,) = result.interface.variants
    base = outputs(result.model, {"x": X})
    assert np.array_equal(base, outputs(variant.model, {"x": X}))
    np.testing.assert_allclose(base, reference(X, None), atol=1e-5, rtol=1e-5)


def test_the_inputs_say_what_they_are_for_and_take_any_rank(tmp_path):
    _, result = extracted(adapted_model(tmp_path), tmp_path / "trial")
    first, second, *_ = result.model.adapters
    assert (first.module, first.role, first.required) == ("enc.up", "down", False)
    assert first.info.shape == (32, "rank_enc_up") and second.info.shape == ("rank_enc_up", 48)
    assert [info.name for info in result.model.inputs] == ["x"], "a run need not feed them"
    other = {
        name: np.random.default_rng(0).normal(size=(32, 7) if name == "enc.up.lora_A" else (7, 48)).astype(np.float32)
        for name in ("enc.up.lora_A", "enc.up.lora_B")
    }
    moved = outputs(result.model, {"x": X, **other}) - outputs(result.model, {"x": X})
    assert np.abs(moved).max() > 1


def test_a_fixed_rank_is_filled_up_with_zeros(tmp_path):
    _, result = extracted(adapted_model(tmp_path), tmp_path / "trial", rank=8)
    (file,) = result.model.attachments.values()
    arrays = read_adapter(file, ONNX_ADAPTER).arrays
    assert arrays["enc.up.lora_A"].shape == (32, 8) and not arrays["enc.up.lora_A"][:, 4:].any()
    got = outputs(result.model, {"x": X, **arrays})
    np.testing.assert_allclose(got, reference(X, adapter_weights("lora")), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(outputs(result.model, {"x": X}), reference(X, None), atol=1e-5, rtol=1e-5)
    with pytest.raises(OptimError) as caught:
        extracted(adapted_model(tmp_path), tmp_path / "again", rank=2)
    assert caught.value.reference == "adapter-rank-too-large"


def test_what_is_required_has_no_default(tmp_path):
    _, result = extracted(adapted_model(tmp_path), tmp_path / "trial", required=True)
    assert len(result.model.inputs) == 5 and all(one.required for one in result.model.adapters)


def test_an_adapter_of_an_embedding_is_not_left_in_the_base(tmp_path):
    path = adapted_model(tmp_path)
    proto = onnx.load(path)
    extra = onnx.numpy_helper.from_array(np.zeros((4, 9), np.float32), "enc.words.lora_embedding_A.default")
    proto.graph.initializer.append(extra)
    proto.graph.node.append(onnx.helper.make_node("Identity", [extra.name], ["z"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, [4, 9]))
    onnx.save(proto, path)
    with pytest.raises(OptimError) as caught:
        extracted(path, tmp_path / "trial")
    assert caught.value.reference == "adapter-not-extractable"
    assert "enc.words" in caught.value.what and "embedding" in caught.value.cause


def test_equal_weights_of_two_layers_stay_two_inputs(tmp_path):
    path = adapted_model(tmp_path)
    proto = onnx.load(path)
    for tensor in proto.graph.initializer:
        if ".lora_" in tensor.name:
            array = np.zeros_like(onnx.numpy_helper.to_array(tensor))  # as peft begins: equal bytes
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(proto, path)
    _, result = extracted(path, tmp_path / "trial")
    assert len({one.info.name for one in result.model.adapters}) == 4
