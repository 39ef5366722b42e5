"""Models with their adapters fed compute what peft computes: rank 4 exported, rank 8 converted, and the base alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exporting import Exported, export
from tiny_models import build, save

from optim import OptimError, SessionConfig
from optim.onnx import describe_model, open_session
from optim_plugins.adapted import AdaptedSession
from optim_plugins.adapters.commands.extracting import write_extracted
from optim_plugins.adapters.convert.convert import convert
from optim_plugins.goals.decoders.decoder import SessionDecoder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing.:FutureWarning"),  # of peft, about itself
]

LAYERS = {"llama": ["q_proj", "v_proj"], "bert": ["query", "value"]}
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
    return AdaptedSession(open_session(model, SessionConfig()), describe_model(model).adapters)


def generates_with_each(session: AdaptedSession, found: Exported, adapter: Path) -> None:
    """Greedy generation with the adapter is the export's own; without it, it is another."""
    taken, ids = SessionDecoder(session, found.evidence.facts), IDS.tolist()
    expected = found.decoder().generate(ids, max_new_tokens=8)
    assert np.array_equal(taken.generate(ids, max_new_tokens=8, adapter=adapter), expected)
    base = taken.generate(ids, max_new_tokens=8)
    assert not np.array_equal(base, expected)
    session.default = session.adapters(adapter)
    assert np.array_equal(taken.generate(ids, max_new_tokens=8), expected)
    assert np.array_equal(taken.generate(ids, max_new_tokens=8, adapter=()), base)
    session.default = ()
    with pytest.raises(OptimError) as caught:
        found.decoder().generate(ids, adapter=adapter)
    assert caught.value.reference == "adapter-not-taken"


@pytest.mark.parametrize("kind", ["llama", pytest.param("bert", marks=pytest.mark.wide)])
def test_outputs_equal_those_of_peft(kind: str, exported: Callable[[str], Exported], tmp_path: Path) -> None:
    four, eight = (adapter_folder(tmp_path, kind, rank) for rank in (4, 8))
    found = export(four, tmp_path / "out", named={"adapters.extract": None})
    assert found.steps["torch.merge-lora"].status == "skipped"
    assert "adapters.extract" in found.steps["torch.merge-lora"].reason
    assert "keep their own names" in found.steps["torch.dynamo"].notes[0]
    assert any(one.name.endswith(".lora_A.default.weight") for one in found.proto().graph.initializer)
    made = write_extracted(found.path(), tmp_path / "taken")
    session = opened(made.model)
    converted = convert(eight, session.inputs).adapter
    feeds = {"input_ids": IDS, "attention_mask": np.ones_like(IDS)}
    fed = {**feeds, **({"token_type_ids": np.zeros_like(IDS)} if kind == "bert" else {})}
    if kind == "llama":
        fed |= {"position_ids": np.arange(IDS.shape[1])[None]} | found.decoder().interface.zeros(1, 0)
    for adapter, folder in ((made.adapter, four), (converted, eight), ((), None)):
        wanted = first_output(as_peft(kind, folder), feeds)
        got = session.run(None, fed, adapter=adapter)[0]
        assert np.abs(got - wanted).max() < 1e-5 * max(1, np.abs(wanted).max())
    assert made.drift < 1e-5
    assert made.base_drift == 0, "the base is exactly the export without its adapter"
    if kind == "llama":
        generates_with_each(session, found, made.adapter)
    plain = exported(kind).session().run(None, fed)[0]
    np.testing.assert_allclose(session.run(None, fed)[0], plain, atol=1e-6, rtol=1e-6)
