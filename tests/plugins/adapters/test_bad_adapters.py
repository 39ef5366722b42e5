"""Adapters and models that do not go together, and files that are no adapters: each is refused by what is wrong."""

from __future__ import annotations

import importlib.util
import json
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from adapter_models import adapted_model, adapter_weights, peft_folder, reference
from click.testing import CliRunner
from safetensors.numpy import load_file, save_file

import optim
from optim import OptimError, SourceRequest, Target
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim.arrays import dtype_of
from optim.onnx import read_ir
from optim_plugins.adapted import Adapter, read_adapter, write_adapter
from optim_plugins.adapters.commands import extracting
from optim_plugins.adapters.commands.command import adapters
from optim_plugins.adapters.extract.further import further_adapters
from optim_plugins.torch.sources.huggingface.lora_adapter import inject
from optim_plugins.torch.sources.huggingface.model_folder import load_folder
from optim_testing import models

X = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)
WEIGHTS = "adapter_model.safetensors"


def call(*words):
    return CliRunner().invoke(adapters, [str(word) for word in words], catch_exceptions=False)


def refusal(work):
    with pytest.raises(OptimError) as caught:
        work()
    return caught.value


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".onnx_adapter"])
def test_an_array_may_have_any_name(tmp_path, suffix):
    arrays = {name: np.ones(3, np.float32) for name in ("file", "path", "self", "a/b")}
    write_adapter(Adapter(arrays), tmp_path / f"a{suffix}")
    assert set(read_adapter(tmp_path / f"a{suffix}").arrays) == set(arrays)


@pytest.mark.parametrize("suffix", [".npz", ".onnx_adapter"])
def test_a_type_that_a_format_lacks_is_named_and_an_earlier_file_stays(tmp_path, suffix):
    path, array = tmp_path / f"a{suffix}", np.ones(3, np.float32)
    write_adapter(Adapter({"x": array}), path)
    error = refusal(lambda: write_adapter(Adapter({"x": array.astype(dtype_of("bfloat16"))}), path))
    assert (error.reference, error.cause, error.fix) == ("adapter-dtype", "they are bfloat16", "write .safetensors")
    assert read_adapter(path).arrays["x"].dtype == np.float32
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A model whose adapters may have any rank."""
    made = tmp_path_factory.mktemp("bad")
    call("extract", adapted_model(made), "-o", made / "out")
    return made / "out"


def two_ranks(folder, **config):
    """An adapter of rank 8 in ``enc.up`` and of rank 4 in ``enc.down``, and its parts."""
    path = peft_folder(folder, rank=4, seed=9, **config)
    parts = {**adapter_weights("lora", 4, 9), "enc.up": adapter_weights("lora", 8, 3)["enc.up"]}
    tensors = {
        f"base_model.model.{module}.{part}.weight": array
        for module, found in parts.items()
        for part, array in found.items()
    }
    save_file(tensors, path / WEIGHTS)
    return path, parts


def test_each_layer_has_the_rank_that_the_pattern_says(out, tmp_path):
    path, parts = two_ranks(tmp_path / "peft", rank_pattern={"up": 8})
    assert "rank 4, 8" in call("convert", path, "--for", out, "-o", tmp_path / "a.npz").output
    found = optim.load(out).run(None, {"x": X}, adapter=tmp_path / "a.npz")[0]
    np.testing.assert_allclose(found, reference(X, parts), atol=1e-5, rtol=1e-5)


def test_a_rank_pattern_for_another_model_is_refused(out, tmp_path):
    """One that its own matrices do not have, and one above the rank that a model fixes."""
    path, _ = two_ranks(tmp_path / "peft", rank_pattern={"up": 8})
    call("extract", adapted_model(tmp_path), "-o", tmp_path / "fixed", "--rank", 4)
    found = refusal(lambda: call("convert", path, "--for", tmp_path / "fixed", "-o", tmp_path / "a.npz"))
    assert found.reference == "adapter-does-not-fit" and "'enc.up' has rank 8, and the model takes 4" in found.cause
    other, _ = two_ranks(tmp_path / "other", rank_pattern={"up": 2})
    found = refusal(lambda: call("convert", other, "--for", out, "-o", tmp_path / "a.npz"))
    assert found.reference == "adapter-not-convertible" and "rank 2 of 'enc.up', whose matrices have 8" in found.cause
    assert not (tmp_path / "a.npz").exists()


def test_a_layer_that_the_export_dropped_is_named_and_not_left_out(out, tmp_path):
    path = peft_folder(tmp_path / "peft")
    tensors = load_file(path / WEIGHTS)
    more = {name.replace("enc.up", "pooler"): array for name, array in tensors.items() if "enc.up" in name}
    save_file({**tensors, **more}, path / WEIGHTS)
    found = refusal(lambda: call("convert", path, "--for", out, "-o", tmp_path / "a.npz"))
    assert found.reference == "adapter-does-not-fit" and not (tmp_path / "a.npz").exists()
    assert "no inputs for 'pooler':" in found.cause and "its export dropped them" in found.cause


@pytest.mark.parametrize("name", [WEIGHTS, "adapter_config.json"])
def test_a_folder_that_was_not_copied_whole_is_refused(out, tmp_path, name):
    path = peft_folder(tmp_path / "peft")
    (path / name).write_bytes((path / name).read_bytes()[:100])
    found = refusal(lambda: call("convert", path, "--for", out, "-o", tmp_path / "a.npz"))
    assert found.reference == "adapter-unreadable" and str(path) in found.what


def test_a_file_in_another_version_of_onnxruntimes_format_is_refused(tmp_path):
    path = tmp_path / "a.onnx_adapter"
    write_adapter(Adapter({"a": np.ones(3, np.float32)}, version=7, model_version=9), path)
    bytes_of, said = path.read_bytes(), struct.pack("<iii", 1, 7, 9)
    assert bytes_of.count(said) == 1, "the versions of the format, of the adapter and of the model lie side by side"
    path.write_bytes(bytes_of.replace(said, struct.pack("<iii", 2, 7, 9)))
    found = refusal(lambda: read_adapter(path))
    assert found.reference == "adapter-unreadable" and "version" in found.cause
    assert refusal(lambda: call("show", path)).reference == "adapter-unreadable"


def test_a_model_that_has_no_adapter_is_refused(out, tmp_path):
    plain = models.mlp(tmp_path)
    found = refusal(lambda: call("extract", plain, "-o", tmp_path / "o"))
    assert found.reference == "nothing-to-extract" and "no weights of LoRA, DoRA or LoHa" in found.cause
    assert not (tmp_path / "o").exists()
    words = ("convert", peft_folder(tmp_path / "peft"), "--for", plain, "-o", tmp_path / "a.npz")
    assert refusal(lambda: call(*words)).reference == "adapter-not-taken"
    plain.rename(tmp_path / "model.onnx")
    write_session_files(tmp_path, SessionFile.of(optim.SessionConfig(), Target("cpu", "ort", "CPUExecutionProvider")))
    file = out / "default.onnx_adapter"
    assert refusal(lambda: optim.load(tmp_path, adapter=file)).reference == "adapter-not-taken"


def of_a_quantized_base(folder):
    """As QLoRA leaves it: the adapter in floats, the base in 4 bits of bitsandbytes."""
    path = peft_folder(folder)
    (path / "base").mkdir()
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "quantization_config": quantized}
    (path / "base" / "config.json").write_text(json.dumps(config))
    return path


def test_an_adapter_of_qlora_is_converted_as_any_other(out, tmp_path):
    call("convert", of_a_quantized_base(tmp_path / "peft"), "--for", out, "-o", tmp_path / "a.npz")
    found = optim.load(out).run(None, {"x": X}, adapter=tmp_path / "a.npz")[0]
    np.testing.assert_allclose(found, reference(X, adapter_weights("lora")), atol=1e-5, rtol=1e-5)


def test_the_quantized_base_of_qlora_is_refused_with_the_way_out(tmp_path):
    path = of_a_quantized_base(tmp_path / "peft")
    found = refusal(lambda: load_folder(path, SourceRequest(str(path))))
    assert found.reference == "source-quantized" and "bitsandbytes" in found.cause
    assert "model.dequantize()" in found.fix and f"optim run {path} --source-arg base=FOLDER" in found.fix


def test_a_source_with_an_adapter_needs_peft_and_says_so(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "peft" else find(name, *more))
    found = refusal(lambda: inject(object(), Path(tmp_path)))
    assert found.reference == "peft-missing" and "pip install peft" in found.fix


def test_a_further_adapter_that_is_called_as_the_models_own_is_refused(tmp_path):
    words = ("run", adapted_model(tmp_path), tmp_path / "default")
    found = refusal(lambda: further_adapters([str(words[2])], read_ir(words[1]), (), "default", tmp_path))
    assert found.reference == "adapter-name-taken"


def test_an_extraction_that_computes_something_else_is_not_written(tmp_path, monkeypatch):
    def read_other(path, suffix=""):
        found = read_adapter(path, suffix)
        return replace(found, arrays={name: array * np.float32(1.01) for name, array in found.arrays.items()})

    monkeypatch.setattr(extracting, "read_adapter", read_other)
    found = refusal(lambda: call("extract", adapted_model(tmp_path), "-o", tmp_path / "o"))
    assert found.reference == "extraction-differs"
    assert not (tmp_path / "o").exists()
