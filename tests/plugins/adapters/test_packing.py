"""Weights of adapters in 4 and 8 bits: how near they are, and graphs that take them."""

from __future__ import annotations

import numpy as np
import pytest
from adapter_models import adapted_model, adapter_weights, peft_folder, reference
from click.testing import CliRunner

from optim import OptimError, Target
from optim.onnx import OnnxRuntimeBackend, deliver_model, operator_counts
from optim_plugins.adapted import ONNX_ADAPTER, read_adapter, require_fit
from optim_plugins.adapters.commands.command import adapters
from optim_plugins.adapters.convert.convert import convert
from optim_plugins.adapters.extract.extract import ExtractPacked
from optim_plugins.adapters.extract.further import in_floats
from optim_plugins.adapters.packing import Packing, packed, unpacked
from optim_testing import PassConformance, Trial

CPU = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")
X = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)
FORMS = [(bits, size, mode) for bits in (4, 8) for size, mode in ((16, "symmetric"), (64, "asymmetric"))]


class Cpu(OnnxRuntimeBackend):
    name = "ort"


class TestExtractPacked(PassConformance):
    max_drift = 0.2
    options = {"bits": 8}  # noqa: RUF012 - the kit reads it as a constant

    @pytest.fixture
    def pass_class(self):
        return ExtractPacked

    @pytest.fixture
    def model_path(self, tmp_path):
        return adapted_model(tmp_path)


def extracted(folder, **options):
    trial = Trial.of(adapted_model(folder), folder / "trial", CPU, Cpu())
    return trial.apply(ExtractPacked(), trial.model, trial.options(ExtractPacked, options))


def relative_l2(found, wanted):
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted)


def outputs(model, feeds):
    with Cpu().open(model, CPU) as session:
        return session.run(feeds)["y"]


@pytest.mark.parametrize(("bits", "size", "mode"), FORMS)
@pytest.mark.parametrize("shape", [(64, 4), (5, 96), (100, 7)])
def test_what_is_packed_is_within_half_a_step(bits, size, mode, shape):
    matrix = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    packing = Packing(bits, size, mode)
    back = unpacked(packed(matrix, packing), packing, shape[0])
    step = 2 * np.abs(matrix).max() / (2**bits - 2)
    assert back.shape == shape and np.abs(back - matrix).max() <= step * (0.5 if mode == "asymmetric" else 1)
    again = unpacked(packed(back, packing), packing, shape[0])
    np.testing.assert_allclose(again, back, atol=1e-6)
    nothing = np.zeros(shape, np.float32)
    assert np.array_equal(unpacked(packed(nothing, packing), packing, shape[0]), nothing)


@pytest.mark.parametrize(("bits", "size", "mode"), FORMS)
def test_the_graph_computes_what_its_packed_weights_say_and_the_base_exactly(tmp_path, bits, size, mode):
    result = extracted(tmp_path, bits=bits, block_size=size, mode=mode)
    arrays = read_adapter(*result.model.attachments.values(), ONNX_ADAPTER).arrays
    require_fit_all(arrays, result.model.adapters)
    assert operator_counts(result.model.path)["com.microsoft:MatMulNBits"] == 4
    floats = in_floats(arrays, result.model.adapters)
    as_peft = {
        name: {"lora_A": floats[f"{name}.lora_A"].T, "lora_B": floats[f"{name}.lora_B"].T / (6 / 4)}
        for name in ("enc.up", "enc.down")
    }
    found = outputs(result.model, {"x": X, **arrays})
    np.testing.assert_allclose(found, reference(X, as_peft), atol=1e-4, rtol=1e-4)
    assert relative_l2(found, reference(X, adapter_weights("lora"))) < (0.2 if bits == 4 else 0.02)
    assert np.array_equal(outputs(result.model, {"x": X}), outputs(result.interface.variants[0].model, {"x": X}))


def require_fit_all(arrays, inputs):
    assert set(arrays) == {one.info.name for one in inputs}


def test_an_adapter_is_converted_to_the_form_that_the_model_takes(tmp_path):
    result = extracted(tmp_path, bits=8, block_size=16, rank=8)
    deliver_model(result.model, tmp_path / "out")
    peft, file = peft_folder(tmp_path / "peft", rank=5, seed=3), tmp_path / "a.onnx_adapter"

    def call(*words):
        made = ["convert", peft, "--for", tmp_path / "out", "-o", file, *words]
        return CliRunner().invoke(adapters, [str(word) for word in made], catch_exceptions=False)

    assert call("--dtype", "int8", "--block-size", "16", "--mode", "symmetric").exit_code == 0
    arrays = read_adapter(file).arrays
    assert arrays["enc.up.lora_A"].dtype == np.uint8 and arrays["enc.up.lora_A"].shape == (8, 4, 16)
    found = outputs(result.model, {"x": X, **arrays})
    assert relative_l2(found, reference(X, adapter_weights("lora", 5, 3))) < 0.02
    for words in (("--dtype", "int4"), ("--dtype", "float32"), ("--block-size", "32"), ("--mode", "asymmetric")):
        with pytest.raises(OptimError) as caught:
            call(*words)
        assert caught.value.reference == "adapter-form" and "int8 in symmetric blocks of 16" in caught.value.cause


def test_scales_alone_or_an_adapter_of_another_width_are_refused(tmp_path):
    result = extracted(tmp_path, bits=4)
    arrays = dict(read_adapter(*result.model.attachments.values(), ONNX_ADAPTER).arrays)
    del arrays["enc.up.lora_A_scales"]
    from optim_plugins.adapted import Adapter

    with pytest.raises(OptimError) as caught:
        require_fit(Adapter(arrays), result.model.adapters, "it")
    assert "not 'enc.up.lora_A_scales'" in caught.value.cause
    with pytest.raises(OptimError) as caught:
        convert(peft_folder(tmp_path / "peft", rank=8), result.model.adapters)
    assert "takes 4" in caught.value.cause, "the rank is fixed"
