"""Files of adapters, their conversion from peft, what fits a model, and sessions that run with several."""

from __future__ import annotations

import json
import shutil

import numpy as np
import onnxruntime as ort
import pytest
from adapter_models import adapted_model, adapter_weights, peft_folder, reference
from click.testing import CliRunner

import optim
from optim import OptimError
from optim.onnx import open_session
from optim_plugins.adapted import Adapter, read_adapter, require_fit, write_adapter
from optim_plugins.adapted.tensor_memory import TensorMemory
from optim_plugins.adapters.commands.command import adapters

X = np.random.default_rng(5).normal(size=(2, 3, 64)).astype(np.float32)
SUFFIXES = (".onnx_adapter", ".safetensors", ".npz")


def call(*words):
    return CliRunner().invoke(adapters, [str(word) for word in words], catch_exceptions=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What ``optim adapters extract`` writes of a model with LoRA of rank 4, and an adapter of rank 8 beside it."""
    made = tmp_path_factory.mktemp("adapters")
    assert "drift" in call("extract", adapted_model(made), "-o", made / "out").output
    converted = call(
        "convert", peft_folder(made / "other", rank=8, seed=2), "--for", made / "out", "-o", made / "other.npz"
    )
    assert "rank 8" in converted.output
    return made


def refusal(work):
    with pytest.raises(OptimError) as caught:
        work()
    return caught.value


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_holds_what_was_written(tmp_path, suffix):
    arrays = {"m.lora_A": np.arange(6, dtype=np.float32).reshape(2, 3), "m.lora_B": np.ones((3, 4), np.float16)}
    write_adapter(Adapter(arrays, version=3, model_version=7), tmp_path / f"a{suffix}")
    back = read_adapter(tmp_path / f"a{suffix}")
    assert (back.version, back.model_version) == (3, 7)
    assert {name: array.tolist() for name, array in back.arrays.items()} == {n: a.tolist() for n, a in arrays.items()}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_cannot_be_written_leaves_no_file(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    assert refusal(lambda: write_adapter(Adapter({}), path)).reference == "adapter-empty"
    if suffix == ".onnx_adapter":
        found = refusal(lambda: write_adapter(Adapter({"a": np.ones(3, np.complex64)}), path))
        assert (found.reference, found.cause) == ("adapter-dtype", "they are complex64")
    assert not path.exists()


def test_a_file_without_weights_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz")
    assert refusal(lambda: read_adapter(tmp_path / "a.npz")).reference == "adapter-empty"


def test_what_a_writer_loses_is_found(tmp_path, monkeypatch):
    """``AdapterFormat.set_parameters`` keeps no reference: what it wrote of arrays that were gone is garbage."""
    from optim_plugins.adapted import adapter_file

    write = adapter_file._write_npz
    damaged = {"a": np.zeros(3, np.float32)}
    monkeypatch.setattr(adapter_file, "_write_npz", lambda adapter, path: write(Adapter(damaged), path))
    found = refusal(lambda: write_adapter(Adapter({"a": np.ones(3, np.float32)}), tmp_path / "a.npz"))
    assert found.reference == "adapter-damaged"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_that_is_cut_off_or_something_else_is_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    write_adapter(Adapter({"a": np.ones((40, 40), np.float32)}), path)
    path.write_bytes(path.read_bytes()[:700])
    assert refusal(lambda: read_adapter(path)).reference == "adapter-unreadable"
    path.write_bytes(b"no adapter")
    assert refusal(lambda: read_adapter(path)).reference == "adapter-unreadable"
    assert refusal(lambda: read_adapter(tmp_path / "none.npz")).reference == "adapter-missing"
    (tmp_path / "a.bin").write_bytes(b"")
    assert refusal(lambda: read_adapter(tmp_path / "a.bin")).reference == "adapter-unknown-format"


def test_several_adapters_are_live_on_one_session(folder):
    session = optim.load(folder / "out", adapter=folder / "out" / "default.onnx_adapter")
    wanted = {
        None: reference(X, adapter_weights("lora")),
        (): reference(X, None),
        folder / "other.npz": reference(X, adapter_weights("lora", 8, 2)),
    }
    for _ in range(2):  # each after each of the others
        for adapter, expected in wanted.items():
            np.testing.assert_allclose(session.run(None, {"x": X}, adapter=adapter)[0], expected, atol=1e-5, rtol=1e-5)
    assert [value.name for value in session.get_inputs()] == ["x"]


def test_an_adapter_in_the_memory_of_a_gpu_is_given_as_it_lies_there(folder):
    """No GPU is here: the values lie in the memory of the machine, and go the way of those of a GPU."""
    session = optim.load(folder / "out")
    live = session.adapters(folder / "other.npz")
    session._memory = TensorMemory("cuda")
    found = session.run(None, {"x": X}, adapter=live)[0]
    np.testing.assert_allclose(found, reference(X, adapter_weights("lora", 8, 2)), atol=1e-5, rtol=1e-5)


def test_a_binding_has_the_adapter_that_onnxruntime_would_ignore(folder):
    session = optim.load(folder / "out")
    binding = session.io_binding(adapter=folder / "other.npz")
    session._read.clear()  # nobody else keeps the adapter
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    found = binding.copy_outputs_to_cpu()[0]
    np.testing.assert_allclose(found, reference(X, adapter_weights("lora", 8, 2)), atol=1e-5, rtol=1e-5)


def test_onnxruntimes_own_way_gives_the_same(folder):
    """The file is what ``LoraAdapter`` reads, and its names are those that the graph takes."""
    session = open_session(folder / "out" / "model.onnx", optim.SessionConfig())
    adapter, options = ort.LoraAdapter(), ort.RunOptions()
    adapter.Load(str(folder / "out" / "default.onnx_adapter"))
    options.add_active_adapter(adapter)
    found = session.run(None, {"x": X}, options)[0]
    np.testing.assert_allclose(found, reference(X, adapter_weights("lora")), atol=1e-5, rtol=1e-5)


def test_two_adapters_for_one_layer_are_refused(folder):
    session = optim.load(folder / "out")
    both = (folder / "out" / "default.onnx_adapter", folder / "other.npz")
    assert refusal(lambda: session.run(None, {"x": X}, adapter=both)).reference == "adapter-names-clash"


@pytest.mark.parametrize("kind", ["lora", "dora", "loha"])
def test_what_is_converted_computes_what_peft_computes(tmp_path, kind):
    exported = "dora" if kind == "dora" else "lora"
    call("extract", adapted_model(tmp_path, exported), "-o", tmp_path / "out")
    peft = peft_folder(tmp_path / "peft", kind, rank=3, seed=9)
    assert call("convert", peft, "--for", tmp_path / "out", "-o", tmp_path / "a.onnx_adapter").exit_code == 0
    found = optim.load(tmp_path / "out").run(None, {"x": X}, adapter=tmp_path / "a.onnx_adapter")[0]
    np.testing.assert_allclose(found, reference(X, adapter_weights(kind, 3, 9)), atol=2e-5, rtol=1e-5)


def test_the_scale_is_that_of_the_adapter_and_not_of_the_export(folder, tmp_path):
    """alpha / r of the exported graph is in its own file: alpha patterns and rsLoRA of another count."""
    peft = peft_folder(tmp_path / "peft", rank=4, seed=9, use_rslora=True, alpha_pattern={"up": 12.0})
    call("convert", peft, "--for", folder / "out", "-o", tmp_path / "a.npz")
    got = read_adapter(tmp_path / "a.npz").arrays
    parts = adapter_weights("lora", 4, 9)
    np.testing.assert_allclose(got["enc.up.lora_B"], parts["enc.up"]["lora_B"].T * 12 / 2, rtol=1e-6)
    np.testing.assert_allclose(got["enc.down.lora_B"], parts["enc.down"]["lora_B"].T * 6 / 2, rtol=1e-6)


@pytest.mark.parametrize(
    ("config", "kind", "reference_of"),
    [
        ({"modules_to_save": ["classifier"]}, "lora", "adapter-not-convertible"),
        ({"bias": "all"}, "lora", "adapter-not-convertible"),
        ({"bias": "lora_only"}, "lora", "adapter-not-convertible"),
        ({"lora_bias": True}, "lora", "adapter-not-convertible"),
        ({"init_lora_weights": "pissa"}, "lora", "adapter-not-convertible"),
        ({"init_lora_weights": "olora"}, "lora", "adapter-not-convertible"),
        ({"alora_invocation_tokens": [1, 2], "task_type": "CAUSAL_LM"}, "lora", "adapter-not-convertible"),
        ({"trainable_token_indices": [1]}, "lora", "adapter-not-convertible"),
        ({}, "dora", "adapter-does-not-fit"),
    ],
)
def test_what_has_no_place_in_the_graph_is_refused(folder, tmp_path, config, kind, reference_of):
    peft = peft_folder(tmp_path / "peft", kind, **config)
    found = refusal(lambda: call("convert", peft, "--for", folder / "out", "-o", tmp_path / "a.npz"))
    assert found.reference == reference_of and not (tmp_path / "a.npz").exists()


def test_an_adapter_of_another_architecture_is_refused_by_the_names_of_its_layers(folder, tmp_path):
    peft = peft_folder(tmp_path / "peft")
    from safetensors.numpy import load_file, save_file

    tensors = load_file(peft / "adapter_model.safetensors")
    save_file(
        {name.replace("enc.up", "dec.out"): array for name, array in tensors.items()},
        peft / "adapter_model.safetensors",
    )
    found = refusal(lambda: call("convert", peft, "--for", folder / "out", "-o", tmp_path / "a.npz"))
    assert found.reference == "adapter-does-not-fit" and "dec.out" in found.cause
    (peft / "adapter_model.safetensors").unlink()
    assert refusal(lambda: call("convert", peft, "--for", folder / "out", "-o", tmp_path / "a.npz")).reference == (
        "not-a-peft-folder"
    )


def test_dora_on_a_quantized_base_is_refused(tmp_path):
    call("extract", adapted_model(tmp_path, "dora"), "-o", tmp_path / "out")
    peft = peft_folder(tmp_path / "peft", "dora")
    (peft / "base" / "config.json").write_text(json.dumps({"quantization_config": {"quant_method": "bitsandbytes"}}))
    words = ("convert", peft, "--for", tmp_path / "out", "-o", tmp_path / "a.npz")
    assert refusal(lambda: call(*words)).reference == "adapter-base-quantized"
    shutil.rmtree(peft / "base")
    assert refusal(lambda: call(*words)).reference == "adapter-base-missing"


def test_peft_is_needed_for_conversion_alone(folder, tmp_path, monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "peft" else find(name, *more))
    peft = peft_folder(tmp_path / "peft")
    found = refusal(lambda: call("convert", peft, "--for", folder / "out", "-o", tmp_path / "a.npz"))
    assert found.reference == "peft-missing" and found.fix.startswith("pip install 'peft")
    assert "fits" in call("check", folder / "out", folder / "other.npz").output


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"enc.up.lora_C": np.ones((2, 2), np.float32)}, "no input 'enc.up.lora_C'"),
        ({"enc.up.lora_A": np.ones((63, 4), np.float32)}, "takes 64xrank"),
        ({"enc.up.lora_A": np.ones((64, 4), np.float16)}, "takes float32"),
        ({"enc.up.lora_A": np.ones((64, 5), np.float32)}, "rank 5"),
        ({"enc.up.lora_A": None}, "not 'enc.up.lora_A'"),
    ],
)
def test_what_a_runtime_would_pass_over_does_not_fit(folder, change, cause):
    inputs = optim.load(folder / "out").inputs
    arrays = dict(read_adapter(folder / "out" / "default.onnx_adapter").arrays) | change
    adapter = Adapter({name: array for name, array in arrays.items() if array is not None})
    found = refusal(lambda: require_fit(adapter, inputs, "it"))
    assert found.reference == "adapter-does-not-fit" and cause in found.cause


def test_a_wrong_version_and_a_model_without_adapters_are_refused(folder, tmp_path):
    file = folder / "out" / "default.onnx_adapter"
    write_adapter(Adapter(read_adapter(file).arrays, 1, 5), tmp_path / "a.npz")
    assert "version 5" in refusal(lambda: call("check", folder / "out", tmp_path / "a.npz", "--model-version", 6)).cause
    plain = adapted_model(tmp_path)
    assert refusal(lambda: call("check", plain, file)).reference == "adapter-not-taken"
    assert refusal(lambda: call("extract", folder / "out" / "model.onnx", "-o", tmp_path / "o")).reference == (
        "nothing-to-extract"
    )
    assert refusal(lambda: call("extract", plain, "-o", folder)).reference == "folder-not-empty"


def test_a_stranger_s_model_names_no_file_that_python_would_import(folder, tmp_path):
    """A run copies attachments beside ``load.py``: one called ``onnxruntime.py`` would be run by it."""
    import onnx

    from optim._engine.graphs.ingest import ingest
    from optim.onnx import deliver_model

    (tmp_path / "evil.py").write_text("raise SystemExit")
    shutil.copy(folder / "out" / "default.onnx_adapter", tmp_path)
    shutil.copy(folder / "out" / "model.onnx.data", tmp_path)
    proto = onnx.load(folder / "out" / "model.onnx", load_external_data=False)
    for key, value in (("optim.attachment/onnxruntime.py", "evil.py"), ("optim.attachment/../b.npz", "evil.py")):
        proto.metadata_props.add(key=key, value=value)
    onnx.save(proto, tmp_path / "model.onnx")
    deliver_model(ingest(tmp_path / "model.onnx", tmp_path / "store"), tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "default.onnx_adapter",
        "model.onnx",
        "model.onnx.data",
    }


def test_a_run_that_must_bring_an_adapter_brings_one(tmp_path):
    """OpenVINO would compute with the adapter of the run before."""
    call("extract", adapted_model(tmp_path), "-o", tmp_path / "out", "--required")
    session, file = optim.load(tmp_path / "out"), tmp_path / "out" / "default.onnx_adapter"
    session.run(None, {"x": X}, adapter=file)
    for adapter in (None, ()):
        found = refusal(lambda adapter=adapter: session.run(None, {"x": X}, adapter=adapter))
        assert found.reference == "adapter-required" and "enc.down.lora_A" in found.cause
        assert refusal(lambda adapter=adapter: session.values(adapter)).reference == "adapter-required"
    by_hand = session.run(None, {"x": X, **read_adapter(file).arrays})[0]
    np.testing.assert_allclose(by_hand, reference(X, adapter_weights("lora")), atol=1e-5, rtol=1e-5)


def test_a_model_whose_adapter_comes_with_the_session_is_extracted_too(tmp_path):
    made = call("extract", adapted_model(tmp_path), "-o", tmp_path / "out", "--supply", "external")
    assert "2 layers" in made.output
    for adapter, weights in ((None, adapter_weights("lora")), ((), None)):
        found = optim.load(tmp_path / "out", adapter=adapter).run(None, {"x": X})[0]
        np.testing.assert_allclose(found, reference(X, weights), atol=1e-5, rtol=1e-5)
    both = ("extract", tmp_path / "lora-dynamo-4.onnx", "-o", tmp_path / "two", "--supply", "external", "--required")
    assert refusal(lambda: call(*both)).reference == "bad-option"
