"""Models with their adapters fed compute what peft computes: rank 4 exported, rank 8 converted, and the base alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import Exported, export
from tiny_models import build, save

from optim import SessionConfig
from optim._engine.generation.decoder import Decoder
from optim.adapters.adapter_file import Adapter, read_adapter, write_adapter
from optim.adapters.session import AdaptedSession
from optim.errors import OptimError
from optim.onnx.files import describe
from optim.onnx.sessions import open_session
from optim_plugins.adapters.commands.extracting import write_extracted
from optim_plugins.adapters.convert.convert import convert

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),  # of peft, about itself
]

LAYERS = {"llama": ["q_proj", "v_proj"], "bert": ["query", "value"], "bart": ["q_proj", "v_proj"]}
IDS = np.array([[5, 6, 7, 8]])


def adapter_folder(folder: Path, kind: str, rank: int) -> Path:
    """An adapter over the base of a kind, which lies beside it."""
    import torch

    peft = pytest.importorskip("peft")
    if not (folder / "base").exists():
        save(kind, folder / "base")
    config = peft.LoraConfig(r=rank, lora_alpha=12, target_modules=LAYERS[kind], init_lora_weights=False)
    torch.manual_seed(rank)
    adapted = peft.get_peft_model(build(kind), config)
    adapted.peft_config["default"].base_model_name_or_path = str(folder / "base")
    adapted.save_pretrained(folder / f"rank{rank}")
    return folder / f"rank{rank}"


def as_peft(kind: str, folder: Path | None) -> Any:
    """The module with an adapter, or without."""
    import peft

    model = build(kind)
    return model if folder is None else peft.PeftModel.from_pretrained(model, folder).eval()


def first_output(module: Any, feeds: dict[str, np.ndarray]) -> np.ndarray:
    import torch

    with torch.no_grad():
        found = module(**{name: torch.from_numpy(array) for name, array in feeds.items()})
    return np.asarray(found[0])


def opened(model: Path) -> AdaptedSession:
    return AdaptedSession(open_session(model, SessionConfig()), describe(model).adapters)


@pytest.mark.parametrize("kind", ["llama", "bert"])
def test_outputs_equal_those_of_peft(kind: str, exported: Callable[[str], Exported], tmp_path: Path) -> None:
    four, eight = (adapter_folder(tmp_path, kind, rank) for rank in (4, 8))
    found = export(four, tmp_path / "out", named={"adapters.extract": None})
    made = write_extracted(found.path(), tmp_path / "taken", required=False, rank=None)
    session = opened(made.model)
    converted = convert(eight, session.inputs).adapter
    feeds = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
    fed = dict(feeds)
    if kind == "llama":
        fed |= {"position_ids": np.arange(IDS.shape[1])[None]} | found.decoder().interface.empty_state(1)
    for adapter, folder in ((made.adapter, four), (converted, eight), ((), None)):
        wanted = first_output(as_peft(kind, folder), feeds)
        got = session.run(None, fed, adapter=adapter)[0]
        assert np.abs(got - wanted).max() < 1e-5 * max(1, np.abs(wanted).max())
    plain = exported(kind).session().run(None, fed)[0]
    assert np.array_equal(session.run(None, fed, adapter=())[0], plain), "the base is the base's own export"


def test_an_encoder_and_a_decoder_each_take_what_is_theirs(tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path, "bart", 4)
    found = export(folder, tmp_path / "out", named={"adapters.extract": None})
    assert {"encoder", "decoder"} == set(found.graphs)
    made = {
        name: write_extracted(found.path(name), tmp_path / name, required=False, rank=None) for name in found.graphs
    }
    decoder = Decoder.of_sessions({name: opened(one.model) for name, one in made.items()}, found.evidence.facts)
    expected = found.decoder().generate(IDS, max_new_tokens=6)
    files = [one.adapter for one in made.values()]
    assert np.array_equal(decoder.generate(IDS, max_new_tokens=6, adapter=files), expected)
    whole = tmp_path / "whole.npz"
    write_adapter(Adapter({k: v for file in files for k, v in read_adapter(file).arrays.items()}), whole)
    assert np.array_equal(decoder.generate(IDS, max_new_tokens=6, adapter=whole), expected)
    base = decoder.generate(IDS, max_new_tokens=6)
    for part in files:
        assert not np.array_equal(decoder.generate(IDS, max_new_tokens=6, adapter=part), expected)
    assert not np.array_equal(base, expected)
    with pytest.raises(OptimError) as caught:
        decoder.generate(IDS, adapter=Adapter({"nobody.lora_A": np.zeros((2, 2), np.float32)}))
    assert "no model" in caught.value.cause
