"""Folders that are no whole models: one clear error each, before anything is exported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from exporting import export, source_of
from tiny_models import build, save

from optim import ExitStatus, OptimError, SourceRequest
from optim_plugins.torch.sources.huggingface.model_folder import load_folder
from optim_plugins.torch.sources.huggingface.model_tasks import task_of

pytestmark = pytest.mark.slow

OWN_CODE = """
from transformers import LlamaConfig, LlamaForCausalLM

class OwnConfig(LlamaConfig):
    model_type = "own"

class Own(LlamaForCausalLM):
    config_class = OwnConfig
"""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("llama", tmp_path_factory.mktemp("llama"), max_shard_size="40kB")


@pytest.fixture
def folder(llama: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in llama.iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    return copy


def refusal(folder: Path, **request: object) -> OptimError:
    with pytest.raises(OptimError) as caught:
        load_folder(folder, SourceRequest(str(folder), **request))  # type: ignore[arg-type]
    return caught.value


def edit_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_sharded_folder_loads(folder: Path) -> None:
    loaded = load_folder(folder, SourceRequest(str(folder)))
    assert len(loaded.weight_files) > 1
    assert type(loaded.model).__name__ == "LlamaForCausalLM" and not loaded.model.training


def test_a_missing_shard_is_named(folder: Path) -> None:
    gone = sorted(folder.glob("model-*.safetensors"))[1]
    gone.unlink()
    error = refusal(folder)
    assert error.reference == "source-shard-missing" and gone.name in error.cause


def test_a_broken_index_is_refused(folder: Path) -> None:
    (folder / "model.safetensors.index.json").write_text('{"weight_map": []}')
    error = refusal(folder)
    assert error.reference == "source-weights-unreadable" and "index.json" in error.what


def test_a_cut_shard_is_refused(folder: Path) -> None:
    shard = sorted(folder.glob("model-*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-100])
    assert refusal(folder).reference == "source-weights-unreadable"


def test_a_folder_without_weights_is_refused(folder: Path) -> None:
    for file in folder.glob("*.safetensors*"):
        file.unlink()
    assert refusal(folder).reference == "source-without-weights"


def test_weights_that_would_be_random_are_named(folder: Path) -> None:
    edit_config(folder, num_hidden_layers=3)
    error = refusal(folder)
    assert error.reference == "source-weights-incomplete" and "model.layers.1" in error.cause


def test_an_unknown_architecture_is_named(folder: Path) -> None:
    edit_config(folder, architectures=["LhamaForCausalLM"])
    error = refusal(folder)
    assert error.reference == "source-unknown-architecture" and "LhamaForCausalLM" in error.cause


def test_code_of_the_folder_is_not_run(folder: Path) -> None:
    marker = folder / "ran"
    (folder / "modeling_own.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    edit_config(folder, auto_map={"AutoModelForCausalLM": "modeling_own.Own"}, architectures=["Own"])
    error = refusal(folder)
    assert error.reference == "source-needs-remote-code" and "--trust-remote-code" in error.fix
    assert error.status is ExitStatus.USAGE and not marker.exists()


def test_code_of_the_folder_is_run_when_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder / "modules"))
    monkeypatch.setattr("sys.path", list(sys.path))
    (folder / "modeling_own.py").write_text(OWN_CODE)
    edit_config(
        folder,
        model_type="own",
        architectures=["Own"],
        auto_map={"AutoConfig": "modeling_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.Own"},
    )
    request = SourceRequest(str(folder), trust_remote_code=True)
    loaded = load_folder(folder, request)
    assert type(loaded.model).__name__ == "Own"
    assert source_of(loaded.model, request).facts["task"] == "text-generation"


def test_a_pickle_is_read_only_when_allowed(tmp_path: Path) -> None:
    import torch

    model = build("llama")
    model.config.architectures = ["LlamaForCausalLM"]
    model.config.save_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    error = refusal(tmp_path)
    assert error.reference == "source-is-pickled" and "--allow-pickle" in error.fix
    loaded = load_folder(tmp_path, SourceRequest(str(tmp_path), allow_pickle=True))
    assert torch.equal(loaded.model.lm_head.weight, model.lm_head.weight)


def test_half_precision_weights_are_exported_as_float32(folder: Path) -> None:
    build("llama").bfloat16().save_pretrained(folder, max_shard_size="1GB")
    (folder / "model.safetensors.index.json").unlink()
    loaded = load_folder(folder, SourceRequest(str(folder)))
    assert str(loaded.model.dtype) == "torch.float32"
    assert "BF16" in loaded.notes[0]


def test_options_of_a_factory_and_a_task_of_another_kind_are_refused(folder: Path) -> None:
    for words in ({"state": ("mems",)}, {"arguments": {"layers": 2}}):
        with pytest.raises(OptimError) as caught:
            load_folder(folder, SourceRequest(str(folder), **words))  # type: ignore[arg-type]
        assert caught.value.reference == "source-option-unused"
    with pytest.raises(OptimError) as caught:
        load_folder(folder, SourceRequest(str(folder), task="image-classification"))
    assert caught.value.reference == "task-does-not-fit"


def test_a_broken_config_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    assert refusal(folder).reference == "source-config-unreadable"


def test_linked_weights_stay_where_they_are(tmp_path: Path) -> None:
    source = save("vit", tmp_path / "source")
    before = {file.name: file.read_bytes() for file in source.iterdir()}
    found = export(source, tmp_path, weights="link")
    written = sum(file.stat().st_size for file in (tmp_path / "store").glob("*.data"))
    assert written < 1024 and "stay in model.safetensors" in found.notes[0]
    assert {file.name: file.read_bytes() for file in source.iterdir()} == before
    assert found.verified["model"].drift.relative_error < 1e-5


def test_a_translation_model_is_no_feature_extractor() -> None:
    assert task_of("MarianMTModel", "input_ids") == "text2text-generation"
    assert task_of("MarianModel", "input_ids") == "feature-extraction"


def _patches_of_any_size() -> Any:
    """Its positions are looked up by sizes that are values of an input."""
    from transformers import Siglip2Config, Siglip2Model

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = sizes | {"vocab_size": 50, "max_position_embeddings": 32}
    return Siglip2Model(Siglip2Config(text_config=text, vision_config=sizes | {"num_patches": 16, "patch_size": 8}))


def _series() -> Any:
    from transformers import TimesFmConfig, TimesFmModelForPrediction

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    lengths = {"patch_length": 8, "context_length": 32, "horizon_length": 8}
    return TimesFmModelForPrediction(TimesFmConfig(**sizes, **lengths, head_dim=8))


@pytest.mark.parametrize("make", [_patches_of_any_size, _series])
def test_a_model_whose_inputs_nobody_can_make_up_is_refused_by_name(
    make: Callable[[], Any], capfd: pytest.CaptureFixture[str]
) -> None:
    model = make().eval()
    with pytest.raises(OptimError) as caught:
        source_of(model, SourceRequest("folder"))
    assert not capfd.readouterr().err
    assert caught.value.reference == "task-not-supported"
    assert caught.value.what == f"{type(model).__name__} cannot be exported from its folder"
    assert "inputs that were synthesized" in caught.value.cause
    assert "optim run mine:factory" in caught.value.fix


def test_weights_that_are_quantized_already_are_refused(tmp_path: Path) -> None:
    """As QLoRA trains on them; transformers would load them with kernels that no exporter writes."""
    folder = save("llama", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(OptimError) as caught:
        load_folder(folder, SourceRequest(str(folder)))
    assert caught.value.reference == "source-quantized" and "bitsandbytes" in caught.value.cause
