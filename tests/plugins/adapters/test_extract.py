"""``adapters.extract``: the graph with its adapter fed, and without, computes what peft computes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import onnx
import pytest
from adapter_models import adapted_model, adapter_weights, reference
from rounding import narrowing, rounding

from optim import OptimError, Target
from optim.onnx import OnnxRuntimeBackend, deliver_model, operator_counts
from optim.options import import_named
from optim_plugins.adapted import ONNX_ADAPTER, read_adapter
from optim_plugins.adapters.extract.extract import Extract
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16
from optim_plugins.ort.prepare.clean import Clean
from optim_plugins.ort.quantize.dynamic.quantize_dynamic import QuantizeDynamic
from optim_plugins.ort.quantize.static.quantize_static import QuantizeStatic
from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights
from optim_testing import PassConformance, Trial

CPU = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")


class Cpu(OnnxRuntimeBackend):
    name = "ort"


def extracted(path, folder, **options):
    trial = Trial.of(path, folder, CPU, Cpu())
    return trial, trial.apply(Extract(), trial.model, trial.options(Extract, options))


def outputs(model, feeds):
    with Cpu().open(model, CPU) as session:
        return session.run(feeds)["y"]


X = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)


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
    [
        ("lora", "dynamo"),
        ("lora", "torchscript"),
        ("lora", "folded"),
        ("lora", "names"),
        ("dora", "dynamo"),
        ("loha", "torchscript"),
    ],
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
    assert first.info.shape == (64, "rank_enc_up") and second.info.shape == ("rank_enc_up", 96)
    assert [info.name for info in result.model.inputs] == ["x"], "a run need not feed them"
    other = {
        name: np.random.default_rng(0).normal(size=(64, 7) if name == "enc.up.lora_A" else (7, 96)).astype(np.float32)
        for name in ("enc.up.lora_A", "enc.up.lora_B")
    }
    moved = outputs(result.model, {"x": X, **other}) - outputs(result.model, {"x": X})
    assert np.abs(moved).max() > 1


def test_a_fixed_rank_is_filled_up_with_zeros(tmp_path):
    _, result = extracted(adapted_model(tmp_path), tmp_path / "trial", rank=8)
    (file,) = result.model.attachments.values()
    arrays = read_adapter(file, ONNX_ADAPTER).arrays
    assert arrays["enc.up.lora_A"].shape == (64, 8) and not arrays["enc.up.lora_A"][:, 4:].any()
    got = outputs(result.model, {"x": X, **arrays})
    np.testing.assert_allclose(got, reference(X, adapter_weights("lora")), atol=1e-5, rtol=1e-5)
    np.testing.assert_allclose(outputs(result.model, {"x": X}), reference(X, None), atol=1e-5, rtol=1e-5)
    with pytest.raises(OptimError) as caught:
        extracted(adapted_model(tmp_path), tmp_path / "again", rank=2)
    assert caught.value.reference == "adapter-rank-too-large"


def test_what_is_required_has_no_default(tmp_path):
    _, result = extracted(adapted_model(tmp_path), tmp_path / "trial", required=True)
    assert len(result.model.inputs) == 5 and all(one.required for one in result.model.adapters)
    (variant,) = result.interface.variants
    fed = import_named(variant.feeds)({"x": X}, **variant.parameters)
    assert np.array_equal(outputs(result.model, fed), outputs(variant.model, {"x": X})), "zeros stand for no adapter"


def test_a_layer_that_is_applied_twice_is_not_left_in_the_base_once(tmp_path):
    path = adapted_model(tmp_path)
    proto = onnx.load(path)
    proto.graph.node.append(onnx.helper.make_node("MatMul", ["x", proto.graph.node[3].output[0]], ["again"]))
    proto.graph.output.append(onnx.helper.make_tensor_value_info("again", 1, None))
    onnx.save(proto, path)
    assert proto.graph.node[3].input[0].endswith("lora_A.default.weight")
    with pytest.raises(OptimError) as caught:
        extracted(path, tmp_path / "trial")
    assert caught.value.reference == "adapter-not-extractable"


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


@pytest.mark.parametrize(
    ("transformation", "options"),
    [
        (QuantizeWeights, {"bits": 4, "block_size": 32}),
        (QuantizeWeights, {"bits": 8, "block_size": 32}),
        (QuantizeDynamic, {}),
        (ConvertFloat16, {"weights_only": True}),
    ],
)
@pytest.mark.parametrize("how", [{}, {"rank": 64}], ids=["any rank", "rank 64"])
def test_a_quantized_base_keeps_its_adapters_in_float(tmp_path, transformation, options, how):
    """What the base loses it loses; the adapter adds no more to that than it adds to the outputs.

    Defaults of rank 64 are as large as weights that are worth quantizing.
    """
    trial, result = extracted(adapted_model(tmp_path), tmp_path / "trial", **how)
    model = result.model
    weights = read_adapter(*model.attachments.values(), ONNX_ADAPTER).arrays
    made = replace(trial, model=model).apply(transformation(), model, trial.options(transformation, options))
    assert made.changed and made.model.adapters == model.adapters
    assert made.model.attachments.keys() == model.attachments.keys()
    base = outputs(made.model, {"x": X}) - outputs(model, {"x": X})
    fed = outputs(made.model, {"x": X, **weights}) - outputs(model, {"x": X, **weights})
    assert np.linalg.norm(base) > 0 and np.linalg.norm(fed) < 3 * np.linalg.norm(base)


def relative(found, wanted):
    return np.linalg.norm(found.astype(np.float64) - wanted) / np.linalg.norm(wanted)


@pytest.mark.parametrize("kind", ["lora", "dora"])
def test_a_model_in_float16_without_types_of_values_keeps_its_adapter_in_float16(tmp_path, kind):
    _, result = extracted(adapted_model(tmp_path, kind, dtype=np.float16), tmp_path / "trial")
    arrays = read_adapter(*result.model.attachments.values(), ONNX_ADAPTER).arrays
    assert {array.dtype.name for array in arrays.values()} == {"float16"}
    x = X.astype(np.float16)
    assert relative(outputs(result.model, {"x": x, **arrays}), reference(X, adapter_weights(kind))) < 2e-3
    assert relative(outputs(result.model, {"x": x}), reference(X, None)) < 2e-3


@pytest.mark.parametrize("style", ["dynamo", "names"])
@pytest.mark.parametrize("transformation", [QuantizeStatic, QuantizeDynamic, Clean])
def test_a_model_that_was_quantized_or_folded_before_is_still_served(tmp_path, transformation, style):
    """Activations in integers too: data passes through them on its way to the adapter."""
    trial = Trial.of(adapted_model(tmp_path, style=style, rank=16), tmp_path / "float", CPU, Cpu())
    before = trial.apply(transformation(), trial.model, trial.options(transformation, narrowing(transformation)))
    assert before.changed
    deliver_model(before.model, tmp_path / "before")
    _, result = extracted(tmp_path / "before" / "model.onnx", tmp_path / "trial")
    weights = read_adapter(*result.model.attachments.values(), ONNX_ADAPTER).arrays
    assert relative(outputs(result.model, {"x": X, **weights}), outputs(before.model, {"x": X})) < 1e-5
    assert relative(outputs(result.model, {"x": X}), reference(X, None)) < rounding(products=2)


@pytest.mark.parametrize(("operator", "cause"), [("MatMul", "folded with others"), ("Conv", "folded with others")])
def test_what_peft_computes_in_a_layer_and_cannot_be_told_is_refused(tmp_path, operator, cause):
    """A LoHa whose matrices TorchScript made one, or a convolution: left alone it would stay in the base."""
    path = adapted_model(tmp_path, style="names")
    proto = onnx.load(path)
    extra = np.zeros((64, 64) if operator == "MatMul" else (64, 3, 1), np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(extra, "onnx::MatMul_9"))
    proto.graph.node.append(
        onnx.helper.make_node(operator, ["x", "onnx::MatMul_9"], ["z"], name=f"/enc/down/{operator}_1")
    )
    proto.graph.output.append(onnx.helper.make_tensor_value_info("z", 1, None))
    onnx.save(proto, path)
    with pytest.raises(OptimError) as caught:
        extracted(path, tmp_path / "trial")
    assert caught.value.reference == "adapter-not-extractable" and cause in caught.value.cause


@pytest.mark.parametrize("bits", [4, 8])
def test_adapters_that_were_quantized_with_the_model_are_taken_out_in_float(tmp_path, bits):
    """By what the exporter says of the nodes: the names of their weights are gone."""
    path = adapted_model(tmp_path, style="folded", rank=64)
    trial = Trial.of(path, tmp_path / "float", CPU, Cpu())
    options = trial.options(QuantizeWeights, {"bits": bits, "block_size": 32})
    quantized = trial.apply(QuantizeWeights(), trial.model, options)
    deliver_model(quantized.model, tmp_path / "quantized")
    assert operator_counts(tmp_path / "quantized" / "model.onnx")["com.microsoft:MatMulNBits"] >= 4
    _, result = extracted(tmp_path / "quantized" / "model.onnx", tmp_path / "trial")
    weights = read_adapter(*result.model.attachments.values(), ONNX_ADAPTER).arrays
    found, wanted = outputs(result.model, {"x": X, **weights}), outputs(quantized.model, {"x": X})
    # the quantized products round what goes in to int8 as well, and those in float do not
    assert np.linalg.norm(found - wanted) < 1e-2 * np.linalg.norm(wanted)
    assert operator_counts(result.model.path)["com.microsoft:MatMulNBits"] == 2
