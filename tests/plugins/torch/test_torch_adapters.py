"""LoRA adapters of peft: merged into the weights, or kept under their own names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from exporting import Exported, export
from tiny_models import build, save

from optim import OptimError, SourceRequest
from optim_plugins.adapters.commands.extracting import write_extracted
from optim_plugins.torch.sources.huggingface.model_folder import load_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),  # of peft, about itself
]


@pytest.fixture(scope="module")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    peft = pytest.importorskip("peft")
    folder = tmp_path_factory.mktemp("lora")
    save("llama", folder / "base")
    model = build("llama")
    model.config.name_or_path = str(folder / "base")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    torch.manual_seed(1)
    adapted = peft.get_peft_model(model, config)
    adapted.peft_config["default"].base_model_name_or_path = str(folder / "base")
    adapted.save_pretrained(folder / "adapter")
    return folder / "adapter"


def _logits(found: object, ids: np.ndarray) -> np.ndarray:
    decoder = found.decoder()  # type: ignore[attr-defined]
    positions = np.arange(ids.shape[1])[None]
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": positions}
    feeds |= decoder.interface.zeros(1, 0)
    return decoder.session.run(["logits"], feeds)[0]


def test_an_adapter_is_merged_and_changes_what_the_model_says(
    adapter: Path, exported: Callable[[str], Exported], tmp_path: Path
) -> None:
    found = export(adapter, tmp_path / "merged")
    assert found.steps["torch.merge-lora"].counts == {"merged": 2}
    base = exported("llama")  # the same weights
    assert "Add" in found.graphs["model"].operators
    assert found.graphs["model"].operators["MatMul"] == base.graphs["model"].operators["MatMul"]
    ids = np.array([[5, 6, 7]])
    assert not np.allclose(_logits(found, ids), _logits(base, ids), atol=1e-3)


def test_torchscript_folds_no_weights_of_adapters(adapter: Path, tmp_path: Path) -> None:
    """Folded, they lie transposed under names that say nothing."""
    found = export(adapter, tmp_path / "out", without=("torch.merge-lora", "torch.dynamo"))
    names = {tensor.name for tensor in found.proto().graph.initializer}
    assert {f"model.layers.0.self_attn.q_proj.lora_{side}.default.weight" for side in "AB"} <= names
    assert "adapters keep their own names: constants are not folded" in found.steps["torch.torchscript"].notes
    made = write_extracted(found.path(), tmp_path / "taken")
    assert made.layers == 2 and made.drift < 1e-5 and made.base_drift == 0


def test_the_model_of_an_adapter_must_be_here(adapter: Path, tmp_path: Path) -> None:
    lonely = tmp_path / "adapter"
    lonely.mkdir()
    for file in adapter.iterdir():
        text = file.read_bytes().replace(str(adapter.parent / "base").encode(), b"acme/llama")
        (lonely / file.name).write_bytes(text)
    with pytest.raises(OptimError) as caught:
        export(lonely, tmp_path / "out")
    assert caught.value.reference == "adapter-base-missing" and "acme/llama" in caught.value.cause
    assert "--source-arg base=" in caught.value.fix
    named = SourceRequest(str(lonely), arguments={"base": str(adapter.parent / "base")})
    assert "with the adapter of adapter" in load_folder(lonely, named).notes
